//! Row groups that were read, for the next query over the same hours.

use std::collections::HashMap;
use std::sync::Arc;

use engine::columns::Columns;

/// Bytes of values that are kept.
pub(crate) const CACHE_BYTES_MAX: usize = 128 << 20;

/// Numbers of a file, a row group in it, columns. A file of these numbers never changes.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(crate) struct CacheKey {
    pub(crate) numbers: (u64, u64),
    pub(crate) group: usize,
    pub(crate) columns: Vec<usize>,
}

struct Entry {
    columns: Arc<Columns>,
    byte_count: usize,
    used: u64,
}

/// The longest unused goes where there is too much.
pub(crate) struct Cache {
    entries: HashMap<CacheKey, Entry>,
    byte_count: usize,
    byte_count_max: usize,
    used: u64,
}

impl Cache {
    pub(crate) fn new(byte_count_max: usize) -> Self {
        Self { entries: HashMap::new(), byte_count: 0, byte_count_max, used: 0 }
    }

    pub(crate) fn get(&mut self, key: &CacheKey) -> Option<Arc<Columns>> {
        self.used += 1;
        let entry = self.entries.get_mut(key)?;
        entry.used = self.used;
        Some(Arc::clone(&entry.columns))
    }

    pub(crate) fn put(&mut self, key: CacheKey, columns: &Arc<Columns>) {
        // Of a quarter and more, one would push out all others.
        let byte_count = columns.byte_count() + 1_000;
        if byte_count > self.byte_count_max / 4 {
            return;
        }
        self.used += 1;
        let entry = Entry { columns: Arc::clone(columns), byte_count, used: self.used };
        self.byte_count += byte_count;
        if let Some(before) = self.entries.insert(key, entry) {
            self.byte_count -= before.byte_count;
        }
        while self.byte_count > self.byte_count_max {
            let oldest = self.entries.iter().min_by_key(|(_, entry)| entry.used);
            let Some(key) = oldest.map(|(key, _)| key.clone()) else { return };
            if let Some(gone) = self.entries.remove(&key) {
                self.byte_count -= gone.byte_count;
            }
        }
    }

    pub(crate) fn forget(&mut self, numbers: (u64, u64)) {
        let mut freed = 0;
        self.entries.retain(|key, entry| {
            let stays = key.numbers != numbers;
            freed += if stays { 0 } else { entry.byte_count };
            stays
        });
        self.byte_count -= freed;
    }
}

#[cfg(test)]
mod tests {
    use engine::columns::{Field, Kind, Value};

    use super::*;

    const SCHEMA: engine::columns::Schema = &[Field::new("bytes", Kind::U64, "")];

    #[test]
    fn the_longest_unused_goes() {
        let mut columns = Columns::new(SCHEMA);
        for at in 0..1_000 {
            columns.push_row(&[Value::U64(at)]).unwrap();
        }
        let columns = Arc::new(columns);
        let key = |number| CacheKey { numbers: (number, number), group: 0, columns: vec![0] };
        let mut cache = Cache::new(50_000);
        for number in 0..6 {
            cache.put(key(number), &columns);
            assert!(cache.get(&key(0)).is_some(), "it is used again and again");
        }
        assert!(cache.get(&key(1)).is_none());
        assert!(cache.get(&key(5)).is_some());
        assert!(cache.byte_count <= 50_000);
        cache.forget((5, 5));
        assert!(cache.get(&key(5)).is_none());
    }
}
