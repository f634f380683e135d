//! What needs no ONNX Runtime; models are run by `tests/test_onnx.py`, which has one.

use std::path::Path;

use super::*;

fn refused(path: &Path) -> String {
    Library::load(path).unwrap_err().to_string()
}

#[test]
fn a_library_that_is_none_is_refused_with_the_way_to_get_one() {
    let c_library = ["/lib/x86_64-linux-gnu", "/lib/aarch64-linux-gnu", "/lib64", "/lib"]
        .map(|folder| format!("{folder}/libc.so.6"))
        .into_iter()
        .find(|path| Path::new(path).is_file());
    let mut cases = vec![
        (String::from("/nowhere/libonnxruntime.so.1"), "cannot open shared object file"),
        (String::from("libonnxruntime.so"), "no absolute path"),
    ];
    cases.extend(c_library.map(|path| (path, "this is not ONNX Runtime")));
    for (path, cause) in cases {
        let text = refused(Path::new(&path));
        assert!(text.starts_with(&format!("{path}: {cause}")), "{text}");
        assert!(text.contains("pip install onnxruntime"), "{text}");
        assert!(!text.contains('\n'), "{text}");
    }
}

#[test]
fn rows_know_how_many_they_are() {
    let mut rows = OnnxRows { values: vec![0.0; 6], column_count: 3, bits: Vec::new() };
    assert_eq!((rows.len(), rows.is_empty()), (2, false));
    rows.clear();
    assert_eq!((rows.len(), rows.is_empty()), (0, true));
}
