//! The front end for Python: what is asked in Python becomes requests of `session`, the same that
//! the command makes, and what they find becomes Arrow. Translation only; names, defaults and
//! documentation that a user meets stand in `python/wirelens/`.

#![deny(unsafe_code)]

mod alone;
mod batch;
mod cca;
mod classify;
mod evidence;
mod first;
mod flows;
mod handed;
mod l4s;
mod latency;
mod onnx;
mod options;
mod packetlog;
mod packets;
mod parquet;
mod reader;
mod refusal;
mod rows;
mod run;
mod top;
mod trees;
mod values;
mod windows;
mod world;

use pyo3::prelude::*;

/// The compiled half of the package `wirelens`.
#[pymodule]
mod _wirelens {
    use pyo3::prelude::*;

    #[pymodule_export]
    use crate::batch::{Batch, RowBatches};
    #[pymodule_export]
    use crate::cca::{
        flight_inputs, flight_row_slots, flight_slots, flight_windows, slot_inputs, slot_windows,
        tap_slots,
    };
    #[pymodule_export]
    use crate::classify::classify_flows;
    #[pymodule_export]
    use crate::evidence::{evidence_words, name_evidence};
    #[pymodule_export]
    use crate::first::{FirstRows, first_packets, flow_schema, found_captures};
    #[pymodule_export]
    use crate::flows::flows;
    #[pymodule_export]
    use crate::l4s::{latency_numbers, latency_rows, predict_latencies, simulate};
    #[pymodule_export]
    use crate::latency::latency;
    #[pymodule_export]
    use crate::onnx::OnnxModel;
    #[pymodule_export]
    use crate::packetlog::{
        PacketForests, judgements, snapshot_columns, snapshot_json, snapshot_schema, snapshots,
    };
    #[pymodule_export]
    use crate::packets::packets;
    #[pymodule_export]
    use crate::reader::Reader;
    #[pymodule_export]
    use crate::rows::declared_columns;
    #[pymodule_export]
    use crate::run::{Run, made_of_arrow, made_of_columns, run};
    #[pymodule_export]
    use crate::top::top;
    #[pymodule_export]
    use crate::trees::{Forest, header_columns, schema_hash};
    #[pymodule_export]
    use crate::windows::{WindowRows, window_schema, windows};

    #[pymodule_init]
    fn init(module: &Bound<'_, PyModule>) -> PyResult<()> {
        module.add("__version__", env!("CARGO_PKG_VERSION"))
    }
}
