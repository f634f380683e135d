"""Outputs of several tables of `wirelens run`: refused together, before anything begins."""

from pathlib import Path

from command import DEMO, wirelens


def test_a_run_whose_last_output_exists_begins_no_log(tmp_path: Path) -> None:
    """Every output is opened before any application begins, exports among them."""
    (tmp_path / "rows.csv").write_text("mine")
    (tmp_path / "wirelens.toml").write_text(
        f'[input]\nread = "{DEMO}"\n[packetlog]\noutput = "log"\n'
        '[unanswered]\noutput = "rows.csv"\nrotate-bytes = "1M"\n'
    )
    ran = wirelens("run", "-q", "-c", "wirelens.toml", cwd=tmp_path)
    assert ran.status == 1, ran.stderr
    assert "wirelens.toml:5: [unanswered] output: rows.csv exists already; give force" in ran.stderr
    assert (tmp_path / "rows.csv").read_text() == "mine" and not (tmp_path / "log").exists()


def test_two_tables_in_one_file_are_refused_whatever_way_its_path_goes(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    for one, other in [
        ("rows.csv", "./rows.csv"),
        ("folder/rows.csv", "folder/../folder/rows.csv"),
        ("-", "/dev/stdout"),
    ]:
        more = 'format = "csv"'
        (tmp_path / "wirelens.toml").write_text(
            f'[input]\nread = "{DEMO}"\n[top]\noutput = "{one}"\n{more}\n'
            f'[flows]\noutput = "{other}"\n{more}\n'
        )
        ran = wirelens("run", "-q", "--check", "-c", "wirelens.toml", cwd=tmp_path)
        wanted = f"wirelens.toml:6: [flows] output: {other} is that of [top]; give another"
        assert ran.status == 2 and wanted in ran.stderr, ran.stderr
