"""`tilewright compare` tells what differs between two measurements, and refuses other files."""

from __future__ import annotations

import json
import random
from pathlib import Path

import pytest
from command_line import run_json, run_tool


def measured(path: Path, scales: dict[str, float], seed: int) -> Path:
    """Results whose times are 100 us times a scale, with 5 % of noise."""
    random.seed(seed)
    rows = [
        {"op": op, "workload": "w", "dtype": "f32", "threads": 1,
         "us_samples": [100 * scale * random.gauss(1, 0.05) for _ in range(60)]}
        for op, scale in scales.items()
    ]  # fmt: skip
    path.write_text(json.dumps({"results": rows}))
    return path


def test_compare_flags_only_what_is_significant(tmp_path) -> None:
    before = measured(tmp_path / "a.json", {"add": 1, "exp": 1, "mul": 1, "old": 1}, 1)
    after = measured(tmp_path / "b.json", {"add": 1, "exp": 0.5, "mul": 1.2, "new": 1}, 2)
    found = run_json("compare", before, after)
    rows = {row["name"].split()[0]: row for row in found["rows"]}
    assert {op: row["verdict"] for op, row in rows.items()} == {
        "add": "same", "exp": "faster", "mul": "slower"
    }  # fmt: skip
    assert rows["exp"]["low"] < 0.5 * 1.03
    assert rows["exp"]["high"] > 0.5 / 1.03
    assert rows["add"]["low"] < 1 < rows["add"]["high"]
    assert found["overall"]["ratio"] == pytest.approx((0.5 * 1.2) ** (1 / 3), rel=0.05)
    assert [len(found["only"][side]) for side in ("before", "after")] == [1, 1]
    text = run_tool("compare", before, after).stdout
    assert "add" not in text
    assert "slower" in text
    assert "same   1 of 3 rows" in text
    assert run_json("compare", before, after, "--min-effect", 3)["rows"][1]["verdict"] == "same"


def test_compare_reads_what_bench_writes(tmp_path) -> None:
    quick = ("--dtype", "f32", "--threads", 1, "--seconds", 0.01)
    data = run_json("bench", "rms_norm", *quick)
    for row in data["results"]:
        samples = row["us_samples"]
        assert min(5, row["runs"]) <= len(samples) <= 64
        assert min(samples) <= row["us"] * 1.001
        assert max(samples) >= row["us"] * 0.999
    bare = run_json("bench", "rms_norm", "--case", "*=5 C=64", *quick, "--no-samples")
    (row,) = bare["results"]
    assert row["us"] > 0
    assert "us_samples" not in row
    (before := tmp_path / "a.json").write_text(json.dumps(data))
    for row in data["results"]:
        row["us_samples"] = [3 * us for us in row["us_samples"]]
    (after := tmp_path / "b.json").write_text(json.dumps(data))
    rows = run_json("compare", before, after)["rows"]
    assert len(rows) == len(data["results"])
    assert all(row["ratio"] == pytest.approx(3) for row in rows)


def test_compare_refuses_other_files(tmp_path) -> None:
    good = measured(tmp_path / "a.json", {"add": 1}, 1)
    other = measured(tmp_path / "b.json", {"mul": 1}, 1)
    (bad := tmp_path / "bad.json").write_text("[1]")
    bare = tmp_path / "bare.json"
    bare.write_text(json.dumps({"results": [{"op": "add", "us": 1.0}]}))
    how = 'bare.json: no row has 5 or more "us_samples"'
    for arguments, complaint in [
        ((good, bad), 'holds no "results"'),
        ((good, tmp_path / "none.json"), "cannot read"),
        ((good, other), "share no row"),
        ((good, bare), how),
        ((bare, good), "run.py --out without --no-samples"),
    ]:
        result = run_tool("compare", *arguments)
        assert result.returncode != 0
        assert complaint in result.stderr
