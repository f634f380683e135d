//! One measurement, as a line of JSON.

use crate::clock::ElapsedTime;

/// What was measured: a bar of a figure, once.
#[derive(Clone, Debug)]
pub(crate) struct Measurement {
    /// The figure it belongs to, such as `fig3`.
    pub(crate) figure: &'static str,
    /// The bar; letters, digits, spaces and simple punctuation only.
    pub(crate) name: String,
    /// Threads that worked, the waiting ones included.
    pub(crate) thread_count: usize,
    /// Items, packets or records that were handled.
    pub(crate) item_count: u64,
    /// Time it took.
    pub(crate) elapsed: ElapsedTime,
    /// Something that must be the same in every repetition.
    pub(crate) check: u64,
}

impl Measurement {
    #[allow(clippy::print_stdout)] // A door: the line is this program's output.
    pub(crate) fn print(&self) {
        println!(
            r#"{{"figure":"{}","name":"{}","threads":{},"items":{},"wall_s":{:.6},"cpu_s":{:.6},"check":{}}}"#,
            self.figure,
            self.name,
            self.thread_count,
            self.item_count,
            self.elapsed.wall.as_secs_f64(),
            self.elapsed.cpu.as_secs_f64(),
            self.check
        );
    }
}
