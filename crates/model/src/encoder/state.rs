//! Keys and values of the last tokens, and room for what is computed on the way.

use super::kernels::Attention;
use super::{EncoderError, EncoderShape, Group, LANES, TOKENS_MAX, WINDOW_MAX};

/// Keys and values of one layer's last tokens.
#[derive(Clone, Debug)]
pub(super) struct Ring {
    /// By head, block and number of the head: lanes are tokens.
    keys: Vec<Group>,
    /// By head, token and group of the head's numbers.
    values: Vec<Group>,
}

/// What an encoder keeps between calls: for each layer a ring of keys and values, and scratch.
///
/// All memory is allocated by [`new`](Self::new); [`size_bytes`](Self::size_bytes) says how much.
#[derive(Clone, Debug)]
pub struct EncoderState {
    pub(super) shape: EncoderShape,
    pub(super) window: usize,
    /// Tokens that were appended.
    pub(super) position: usize,
    pub(super) rings: Vec<Ring>,
    pub(super) scratch: Scratch,
}

/// Rows of whole groups, for each token of a block.
#[derive(Clone, Debug)]
pub(super) struct Scratch {
    /// What goes from layer to layer.
    pub(super) stream: Vec<Group>,
    /// Queries, keys and values.
    pub(super) projected: Vec<Group>,
    /// Outcome of attention.
    pub(super) attended: Vec<Group>,
    /// What is added to the stream.
    pub(super) added: Vec<Group>,
    /// Numbers between the two layers of the feed-forward network.
    pub(super) hidden: Vec<Group>,
    /// Scores of one head.
    pub(super) scores: Vec<Group>,
}

impl EncoderState {
    /// For an encoder of this shape, whose tokens see `window` tokens, themselves included.
    ///
    /// # Errors
    /// [`EncoderError`]: a window out of range, or a shape that cannot be.
    pub fn new(shape: EncoderShape, window: usize) -> Result<Self, EncoderError> {
        shape.check()?;
        if !(1..=WINDOW_MAX).contains(&window) {
            return Err(EncoderError::new(format!(
                "a window of {window} tokens; wanted: 1 to {WINDOW_MAX}"
            )));
        }
        // The tokens of a block see so many places, which need not begin with a block of lanes.
        let block_count = (window + TOKENS_MAX - 1).div_ceil(LANES) + 1;
        let head_len = shape.head_len();
        let token_groups = shape.head_count * head_len.div_ceil(LANES);
        let ring = Ring {
            keys: vec![[0.0; LANES]; shape.head_count * block_count * head_len],
            values: vec![[0.0; LANES]; block_count * LANES * token_groups],
        };
        let rows = |len: usize| vec![[0.0; LANES]; TOKENS_MAX * len.div_ceil(LANES)];
        let scratch = Scratch {
            stream: rows(shape.width),
            projected: rows(3 * shape.width),
            attended: rows(shape.width),
            added: rows(shape.width),
            hidden: rows(shape.hidden_len),
            scores: vec![[0.0; LANES]; TOKENS_MAX * block_count],
        };
        let rings = vec![ring; shape.layer_count];
        Ok(Self { shape, window, position: 0, rings, scratch })
    }

    /// Tokens that a token sees, itself included.
    #[must_use]
    pub const fn window(&self) -> usize {
        self.window
    }

    /// Tokens that were appended since the start.
    #[must_use]
    pub const fn token_count(&self) -> usize {
        self.position
    }

    /// Forgets all tokens; the next one is the first.
    pub const fn clear(&mut self) {
        self.position = 0;
    }

    /// Memory of the rings and the scratch.
    #[must_use]
    pub fn size_bytes(&self) -> usize {
        let rings = self.rings.iter().map(|ring| ring.keys.len() + ring.values.len());
        let Scratch { stream, projected, attended, added, hidden, scores } = &self.scratch;
        let scratch = [stream, projected, attended, added, hidden, scores].map(Vec::len);
        rings.chain(scratch).sum::<usize>() * size_of::<Group>()
    }
}

impl Ring {
    /// Puts the keys and values of some tokens where the oldest are, and says what they see.
    pub(super) fn push<'a>(
        &'a mut self,
        (shape, window, position): (EncoderShape, usize, usize),
        rows: &'a [f32],
        count: usize,
    ) -> Attention<'a> {
        let EncoderShape { width, head_count, .. } = shape;
        let (head_len, row_len) = (shape.head_len(), (3 * width).next_multiple_of(LANES));
        let groups = head_len.div_ceil(LANES);
        let block_count = self.keys.len() / (head_count * head_len);
        let ring_len = block_count * LANES;
        for (row, position) in rows.chunks_exact(row_len).take(count).zip(position..) {
            let place = position % ring_len;
            let keys = row[width..2 * width].chunks_exact(head_len);
            let values = row[2 * width..3 * width].chunks_exact(head_len);
            for (head, (keys, values)) in keys.zip(values).enumerate() {
                let block = (head * block_count + place / LANES) * head_len;
                let to = &mut self.keys[block..][..head_len];
                to.iter_mut().zip(keys).for_each(|(to, &key)| to[place % LANES] = key);
                let to = &mut self.values[(head * ring_len + place) * groups..][..groups];
                to.as_flattened_mut()[..head_len].copy_from_slice(values);
            }
        }
        let Self { keys, values } = self;
        Attention {
            keys,
            values,
            block_count,
            head_count,
            head_len,
            window,
            position,
            rows,
            row_len,
        }
    }
}
