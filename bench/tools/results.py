"""Figures by step, system, metric and parameters, one for each round; kept as JSON."""

import json
import os
import statistics

# Parameters that tell figures of one metric apart; the others only describe a run.
KEYS = ("actors", "registered", "submitters", "queued", "gap_us", "sink", "id_bytes", "method",
        "ring_flags", "placement", "workers")


def lower_quartile(values):
    """The figure that three quarters of the rounds reached."""
    if len(values) == 1:
        return values[0]
    return statistics.quantiles(values, n=4, method="inclusive")[0]


class Results:
    def __init__(self):
        self.about, self.failures, self.idioms = {}, [], {}
        self.series = {}  # (step, system, metric, unit, keys as a sorted tuple) -> {round: value}
        self.disturbed = []  # CPUs that other processes kept busy, by run

    def add(self, step, round_number, line):
        params = line["params"]
        keys = tuple(sorted((key, params[key]) for key in KEYS if key in params))
        name = (step, line["system"], line["metric"], line["unit"], keys)
        self.series.setdefault(name, {})[round_number] = line["value"]
        if "idiom" in params:
            self.idioms.setdefault(line["system"], {})[line["workload"]] = params["idiom"]
        if "other_cpus" in params:
            self.disturbed.append(params["other_cpus"])

    def find(self, step, metric, system=None, **wanted):
        """[(system, keys, {round: value})] of all series that have these parameters."""
        found = []
        for (at, who, what, _, keys), rounds in self.series.items():
            params = dict(keys)
            if (at, what) == (step, metric) and who == (system or who) and all(
                    params.get(key) == value for key, value in wanted.items()):
                found.append((who, params, rounds))
        return found

    def rounds(self, step, metric, system, **wanted):
        """{round: value} of one series; {} if it was not measured, and the last if there are
        several."""
        found = self.find(step, metric, system, **wanted)
        return found[-1][2] if found else {}

    def median(self, step, metric, system, **wanted):
        values = self.rounds(step, metric, system, **wanted)
        return statistics.median(values.values()) if values else None

    def save(self, folder):
        series = [
            {"step": step, "system": system, "metric": metric, "unit": unit, "params": dict(keys),
             "values": [float(f"{rounds[i]:.6g}") for i in sorted(rounds)],
             "rounds": sorted(rounds)}
            for (step, system, metric, unit, keys), rounds in sorted(self.series.items(), key=str)
        ]
        other = statistics.median(self.disturbed) if self.disturbed else 0
        self.about["other_cpus_median"] = round(other, 2)
        with open(os.path.join(folder, "results.json"), "w", encoding="utf-8") as file:
            file.write('{"about": ' + json.dumps(self.about, indent=1) + ',\n"failures": '
                       + json.dumps(self.failures) + ',\n"idioms": '
                       + json.dumps(self.idioms, indent=1, sort_keys=True) + ',\n"series": [\n')
            file.write(",\n".join(json.dumps(each) for each in series))
            file.write("\n]}\n")

    @classmethod
    def load(cls, folder):
        with open(os.path.join(folder, "results.json"), encoding="utf-8") as file:
            kept = json.load(file)
        results = cls()
        results.about, results.failures = kept["about"], kept["failures"]
        results.idioms = kept["idioms"]
        for each in kept["series"]:
            name = (each["step"], each["system"], each["metric"], each["unit"],
                    tuple(sorted(each["params"].items())))
            results.series[name] = dict(zip(each["rounds"], each["values"]))
        return results
