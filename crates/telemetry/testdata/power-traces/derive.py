"""Derives the fixtures of this folder from the converted recordings; README.md says what they are.

Usage: python3 derive.py FOLDER_WITH_RECORDINGS
"""

import pathlib
import sys

BIN_MS = 5.0
HERE = pathlib.Path(__file__).parent
SENSORS = {  # recording: (columns, last time in ms)
    "rtx3090-step": (["power.draw.average [W]", "power.draw.instant [W]"], 1e9),
    "rtx3090-square-104ms": (
        ["power.draw.average [W]", "power.draw.instant [W]", "utilization.gpu [%]"],
        1e9,
    ),
    "k40m-step": (["power.draw [W]"], 1e9),
    "v100-update-rate": (["power.draw.instant [W]"], 30e3),
}


def rows(path):
    lines = path.read_text().splitlines()
    names = lines[0].split(";")
    return [dict(zip(names, line.split(";"))) for line in lines[1:]]


def main(folder):
    for name, (columns, last_ms) in SENSORS.items():
        short = [column.replace(" [W]", "_w").replace(" [%]", "_pct") for column in columns]
        short = [column.replace(".", "_") for column in short]
        out = [";".join(["t_ms"] + short)]
        for row in rows(folder / f"{name}.sensor.csv"):
            if float(row["t_ms"]) <= last_ms:
                out.append(";".join([row["t_ms"]] + [row[column] for column in columns]))
        (HERE / f"{name}.sensor.csv").write_text("\n".join(out) + "\n")
        if not (folder / f"{name}.meter.csv").exists():
            continue
        bins = {}
        for row in rows(folder / f"{name}.meter.csv"):
            bins.setdefault(int(float(row["t_ms"]) // BIN_MS), []).append(float(row["watts"]))
        # The outermost bins are only partly covered. A bin that the meter skipped takes the mean of its neighbours.
        first, last = min(bins) + 1, max(bins) - 1
        out = ["t_ms;mean_w"]
        means = {b: sum(watts) / len(watts) for b, watts in bins.items()}
        for b in range(first, last + 1):
            if b not in means:
                print(f"{name}: bin {b} skipped by the meter")
                means[b] = (means[b - 1] + means[min(k for k in bins if k > b)]) / 2
            out.append(f"{b * BIN_MS:g};{means[b]:.1f}")
        (HERE / f"{name}.meter.csv").write_text("\n".join(out) + "\n")
        stamps = [row["t_ms"] for row in rows(folder / f"{name}.load.csv")]
        (HERE / f"{name}.load.csv").write_text("\n".join(["t_ms"] + stamps) + "\n")


if __name__ == "__main__":
    main(pathlib.Path(sys.argv[1]))
