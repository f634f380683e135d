"""Tables of the pages, from kept rows: `<!-- table: NAME [WORD...] -->`."""

import hashlib
import json
import struct
from collections.abc import Callable, Mapping, Sequence

import page_ages
import page_cca
import page_cca_levels
import page_devices
import page_l4s
import page_marking
import page_memory
import page_names
import page_packetlog
import page_read_names
import page_services
import page_video
from page_rows import RESULTS, ROOT, Missing, read


def ages(words: Sequence[str], old: str) -> str:
    """How old the rows of these folders are; the first word leads from the page to them."""
    link, *folders = words
    return page_ages.on_page(folders, link, old)


def copied(path: str, section: str, *renamed: str) -> str:
    """The first table under a heading of a kept file in Markdown; `OLD=NEW` renames cells."""
    file = RESULTS / path
    if not file.exists():
        raise Missing(f"no file bench/results/{path}")
    names = dict(word.split("=", 1) for word in renamed)
    heading, lines = "", list[str]()
    for line in file.read_text(encoding="utf-8").splitlines():
        if line.startswith("#"):
            heading = line.lstrip("# ")
        if heading == section and line.startswith("|"):
            cells = line.split("|")
            lines.append("|".join(_renamed(cell, names) for cell in cells))
        elif lines:
            break
    if not lines:
        raise Missing(f"{path}: no table under {section!r}")
    return "\n".join(lines) + "\n"


def _renamed(cell: str, names: Mapping[str, str]) -> str:
    new = names.get(cell.strip())
    return cell if new is None else f" {new} "


def places() -> str:
    """Attacks of other places, as a model of the testbed alone and the one that ships mark them."""
    folder = "2026-11-22-amd-epyc-2-cores-packetlog"
    alone, wide = (
        [row for row in read(f"{folder}/{name}.md") if row["section"] == "Attacks"]
        for name in ("real", "wide-real")
    )
    text = "| attack | packets | recall, `s1` | `packetlog` |\n| --- | ---: | ---: | ---: |\n"
    for one, other in zip(alone, wide, strict=True):
        cells = (one["attack"], one["packets"], one["recall"], other["recall"])
        text += f"| {' | '.join(cells)} |\n"
    return text


def crowded() -> str:
    """One model with fewer and fewer buckets."""
    text = (
        "| buckets | flows a bucket | packets without a place | precision | recall | accuracy "
        "| mean recall of attacks |\n|---:|---:|---:|---:|---:|---:|---:|\n"
    )
    for row in read("2026-11-22-amd-epyc-2-cores-packetlog/crowded.jsonl"):
        cells = [
            f"{row['layers']} × {row['buckets']:,}",
            f"{row['flows_a_bucket']:.2f}",
            f"{row['without_flow']:.1%}",
            *(f"{row[name]:.3f}" for name in ("precision", "recall", "accuracy", "mean_recall")),
        ]
        text += f"| {' | '.join(cells)} |\n"
    return text


MODELS = {
    "services": "cascade.json",
    "categories": "cascade.json",
    "devices": "cascade.json",
    "packetlog": "model.json",
    "cca": "model.safetensors",
    "l4s": "model.safetensors",
    "video-rate": "cascade.json",
}
"""Of each model that ships the file whose SHA-256 is its fingerprint."""


def fingerprint(model: str) -> str:
    """`services@5da7f178a3e3`: its name in rows that were measured before ids of cascades covered
    more than one file.
    """
    content = (ROOT / "models" / model / MODELS[model]).read_bytes()
    return f"{model}@{hashlib.sha256(content).hexdigest()[:12]}"


def identity(model: str) -> str:
    """Its name in rows since: `docs/specs/cascade.md` specifies it."""
    folder = ROOT / "models" / model
    if MODELS[model] != "cascade.json":
        return fingerprint(model)
    head = json.loads((folder / "cascade.json").read_text(encoding="utf-8"))
    names = ["cascade.json", head.get("names"), *(stage["file"] for stage in head["stages"])]
    contents = {name: (folder / name).read_bytes() for name in names if name is not None}
    lines = "".join(
        f"{hashlib.sha256(content).hexdigest()} {len(content)} {name}\n"
        for name, content in contents.items()
    )
    return f"{model}@{hashlib.sha256(lines.encode()).hexdigest()[:12]}"


def ids(model: str) -> set[str]:
    """What rows call a model that ships."""
    return {identity(model), fingerprint(model)}


def weights(model: str) -> str:
    """The first digits of the SHA-256 of a model's numbers, whatever its header says."""
    content = (ROOT / "models" / model / "model.safetensors").read_bytes()
    (header_len,) = struct.unpack("<Q", content[:8])
    return hashlib.sha256(content[8 + header_len :]).hexdigest()[:12]


def models() -> str:
    """What `--model NAME` is today."""
    text = "| `--model` | id | fingerprint | card |\n|---|---|---|---|\n"
    for model in MODELS:
        card = f"[card](../../models/{model}/card.md)"
        text += f"| `{model}` | `{identity(model)}` | `{fingerprint(model)}` | {card} |\n"
    return text


def plain(build: Callable[..., str]) -> Callable[[Sequence[str], str], str]:
    """A table that does not depend on what the page has now."""
    return lambda words, _: build(*words)


TABLES: dict[str, Callable[[Sequence[str], str], str]] = {
    "ages": ages,
    "copied": plain(copied),
    "packetlog-attacks": plain(page_packetlog.attacks),
    "packetlog-kinds": plain(page_packetlog.kinds),
    "packetlog-strangers": plain(page_packetlog.strangers),
    "packetlog-by-capture": plain(page_packetlog.by_capture),
    "packetlog-volume-captures": plain(page_packetlog.volume_captures),
    "packetlog-volume": plain(page_packetlog.volume_modes),
    "packetlog-volume-blocks": plain(page_packetlog.volume_blocks),
    "packetlog-calibrate": plain(page_packetlog.calibration),
    "packetlog-compared": plain(page_packetlog.compared),
    "packetlog-tried": plain(page_packetlog.tried),
    "packetlog-unknown": plain(page_packetlog.unknown),
    "packetlog-crowded": plain(crowded),
    "packetlog-places": plain(places),
    "models": plain(models),
    "cca-lengths": plain(page_cca.lengths),
    "cca-levels": plain(page_cca_levels.levels),
    "cca-borders": plain(page_cca_levels.borders),
    "cca-beside": plain(page_cca.beside),
    "cca-equal": plain(page_cca.equal),
    "cca-equal-levels": plain(page_cca_levels.equal),
    "cca-gigabit": plain(page_cca.gigabit),
    "cca-seven": plain(page_cca.seven),
    "cca-seven-levels": plain(page_cca.seven_levels),
    "cca-left-out": plain(page_cca.left_out),
    "cca-inputs": plain(page_cca.inputs),
    "cca-foreign": plain(page_cca.foreign),
    "memory-splits": plain(page_memory.splits),
    "memory-units": plain(page_memory.units),
    "memory-hosts": plain(page_memory.memory),
    "memory-changed": plain(page_memory.changed),
    "memory-served": plain(page_memory.served),
    "memory-served-hosts": plain(page_memory.served_hosts),
    "names-splits": plain(page_names.splits),
    "names-ladder": plain(page_names.ladder),
    "names-classes": plain(page_names.classes),
    "names-origins": plain(page_names.origins),
    "names-foreign": plain(page_names.foreign),
    "names-parts": plain(page_names.parts),
    "names-list": plain(page_names.listed),
    "names-left-out": plain(page_names.left_out),
    "names-parameters": plain(page_names.parameters),
    "devices-splits": plain(page_devices.splits),
    "devices-units": plain(page_devices.units),
    "devices-without": plain(page_devices.without),
    "devices-foreign": plain(page_devices.foreign),
    "devices-home": plain(page_devices.home),
    "devices-known": plain(page_devices.known),
    "l4s-worlds": plain(page_l4s.worlds),
    "l4s-three": plain(page_l4s.three),
    "l4s-speed": plain(page_l4s.speed),
    "l4s-controls": plain(page_l4s.controls),
    "l4s-axis": plain(page_l4s.axis),
    "l4s-traces": plain(page_l4s.traces),
    "l4s-predicted": plain(page_l4s.predicted),
    "l4s-paired": plain(page_l4s.paired),
    "l4s-intervals": plain(page_l4s.intervals),
    "l4s-batches": plain(page_l4s.batches),
    "l4s-marking": plain(page_l4s.marking),
    "l4s-loop": plain(page_l4s.loop),
    "l4s-axes": plain(page_l4s.axes),
    "l4s-encoder": plain(page_l4s.encoder),
    "l4s-thresholds": plain(page_marking.thresholds),
    "l4s-model": plain(page_marking.p99),
    "l4s-model-cost": plain(page_marking.cost),
    "l4s-model-axis": plain(page_marking.axis),
    "l4s-model-worlds": plain(page_marking.worlds),
    "l4s-verdict": plain(page_marking.verdict),
    "names-tshark": plain(page_read_names.agreement),
    "names-speed": plain(page_read_names.speed),
    "video-models": plain(page_video.models),
    "video-foreign": plain(page_video.foreign),
    "services-worth": plain(page_services.worth),
    "categories": plain(page_services.categories),
    "categories-classes": plain(page_services.category_classes),
    "services-confidence": plain(page_services.confidence),
    "services-systems": plain(page_services.systems),
    "services-stages": plain(page_services.stages),
    "services-classes": plain(page_services.classes),
    "services-foreign": plain(page_services.foreign),
}


def table(name: str, words: Sequence[str], old: str) -> str:
    """The lines of a table, as a page has them."""
    if name not in TABLES:
        raise Missing(f"no table {name!r} in bench/pages/page_tables.py")
    return TABLES[name](words, old)
