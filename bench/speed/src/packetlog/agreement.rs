//! How often whole numbers decide as floats do, packet by packet.

use std::path::PathBuf;
use std::sync::Arc;

use clap::Args;
use packet::{HashSeed, Source as _};
use packetlog::integer::{IntegerClassifier, IntegerModel, IntegerOptions};
use packetlog::{Classifier, Model};

use crate::Failure;
use crate::frames::Frames;

/// Arguments of `packetlog agreement`.
#[derive(Debug, Args)]
pub(crate) struct AgreementArguments {
    /// A capture; may be given again
    #[arg(long, value_name = "FILE", required = true)]
    capture: Vec<PathBuf>,
    /// The model's file
    #[arg(long, value_name = "FILE")]
    model: PathBuf,
    /// Relative errors of products
    #[arg(long, value_delimiter = ',', default_value = "0.001,0.01,0.05")]
    product_error: Vec<f64>,
    /// Bits of squares
    #[arg(long, value_delimiter = ',', default_value = "10,4")]
    mantissa_bits: Vec<u32>,
    /// Packets of each capture to take
    #[arg(long, default_value_t = 2_000_000)]
    packets: usize,
}

/// Prints a line of JSON for each capture and kind of arithmetic.
pub(crate) fn run(arguments: &AgreementArguments) -> Result<(), Failure> {
    let name = arguments.model.display();
    let text = std::fs::read(&arguments.model).map_err(|error| format!("{name}: {error}"))?;
    let model = Arc::new(Model::parse(&text).map_err(|error| format!("{name}: {error}"))?);
    for path in &arguments.capture {
        let mut frames = Frames::read(path, arguments.packets)?;
        let trace = path.file_stem().map_or_else(String::new, |s| s.to_string_lossy().into());
        for &mantissa_bits in &arguments.mantissa_bits {
            for &product_error in &arguments.product_error {
                let options = IntegerOptions::Switch { product_error, mantissa_bits };
                compare(&trace, &mut frames, &model, options)?;
            }
        }
        compare(&trace, &mut frames, &model, IntegerOptions::Kernel)?;
    }
    Ok(())
}

/// Packets by what both found.
#[derive(Default)]
struct Counted {
    packets: u64,
    same: u64,
    marked: u64,
    integer_marked: u64,
}

fn compare(
    trace: &str,
    frames: &mut Frames,
    model: &Arc<Model>,
    options: IntegerOptions,
) -> Result<(), Failure> {
    let tables = IntegerModel::new(model, options).map_err(|error| error.to_string())?;
    let sizes = tables.sizes();
    let seed = HashSeed::new(1);
    let mut exact = Classifier::new(Arc::clone(model), seed);
    let mut integer = IntegerClassifier::new(Arc::new(tables), seed);
    let (mut wanted, mut found) = (Vec::new(), Vec::new());
    let mut counted = Counted::default();
    (frames.next, frames.batch_len) = (0, 256);
    while let Some(batch) = frames.next_batch() {
        exact.judge(&batch, &mut wanted);
        integer.judge(&batch, &mut found);
        for (wanted, found) in wanted.iter().zip(&found) {
            counted.packets += 1;
            counted.same += u64::from(wanted.class == found.class);
            counted.marked += u64::from(wanted.class > 0);
            counted.integer_marked += u64::from(found.class > 0);
        }
    }
    let arithmetic = match options {
        IntegerOptions::Kernel => String::from(r#""kernel":true"#),
        IntegerOptions::Switch { product_error, mantissa_bits } => {
            format!(r#""product_error":{product_error},"mantissa_bits":{mantissa_bits}"#)
        }
    };
    let Counted { packets, same, marked, integer_marked, .. } = counted;
    let of_all = |part: u64| part as f64 / packets.max(1) as f64;
    print(&format!(
        r#"{{"figure":"packetlog-agreement","trace":"{trace}",{arithmetic},"packets":{packets},"agreement":{:.6},"marked":{:.6},"integer_marked":{:.6},"forest_bytes":{},"product_bytes":{},"constants":{},"square_bytes":{}}}"#,
        of_all(same),
        of_all(marked),
        of_all(integer_marked),
        sizes.forest_bytes,
        sizes.product_bytes,
        sizes.constants,
        sizes.square_bytes
    ));
    Ok(())
}

#[allow(clippy::print_stdout)] // A door: the line is its output.
fn print(line: &str) {
    println!("{line}");
}
