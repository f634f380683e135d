"""Rows through ONNX Runtime on one thread, told as `wirelens-bench trees` tells its own.

    .venv/bin/python bench/speed/onnx_trees.py NAME ...

Reads what `bench/speed/train_trees.py --onnx` wrote; needs onnxruntime. Unpacking records into
columns of 32-bit numbers, which Wirelens does without, is not counted. The
call from Python is, some microseconds. Says how far the probabilities are from ours.
"""

import json
import sys
import time

import numpy
import onnxruntime
from train_trees import FOLDER
from wirelens import trees

RECORD_LEN = 144
DATA_LEN = 128
ROW_COUNT = 4_096


def main() -> None:
    """Measures each model alone and in batches of 64."""
    onnxruntime.set_default_logger_severity(3)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    for name in sys.argv[1:]:
        records = (FOLDER / f"{name}.records").read_bytes()
        forest = trees.load(FOLDER / f"{name}.trees.jsonl")
        shape = (-1, forest.packet_count, RECORD_LEN)
        packets = numpy.frombuffer(records, numpy.uint8).reshape(shape)
        bits = numpy.unpackbits(packets[:, :, :DATA_LEN], axis=2).astype(numpy.int8)
        there = numpy.unpackbits(packets[:, :, DATA_LEN:], axis=2).astype(bool)
        values = numpy.where(numpy.repeat(there, 8, axis=2), bits, -1)
        columns = numpy.loadtxt(FOLDER / f"{name}.columns", dtype=int)
        rows = values.reshape(len(values), -1)[:, columns].astype(numpy.float32)
        session = onnxruntime.InferenceSession(str(FOLDER / f"{name}.onnx"), options)
        entry, output = session.get_inputs()[0].name, session.get_outputs()[1].name
        ours = numpy.asarray(trees.score(forest, records))
        theirs = session.run([output], {entry: rows})[0]
        print(f"{name}: at most {abs(ours - theirs).max():.2g} apart", file=sys.stderr)
        for together, shown in ((1, "alone"), (64, "64 together")):
            batches = [rows[at : at + together] for at in range(0, ROW_COUNT, together)]
            wall, cpu = time.perf_counter(), time.process_time()
            for batch in batches:
                session.run([output], {entry: batch})
            told = {
                "figure": "trees",
                "name": f"{name}, {shown}, ONNX Runtime from Python",
                "threads": 1,
                "items": ROW_COUNT,
                "wall_s": time.perf_counter() - wall,
                "cpu_s": time.process_time() - cpu,
                "check": 0,
            }
            print(json.dumps(told), flush=True)


if __name__ == "__main__":
    main()
