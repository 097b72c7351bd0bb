# SPDX-License-Identifier: Apache-2.0
"""Times the up projection of block128 alone, with its activation fused, and with its rows quantised too, in one process.

usage: compare_fused_matmul.py LIBMOEGEN.SO [LIBMOEGEN.SO ...] [--shapes LIST] [--rounds N] [--space NAME=JSON ...]

Shapes are those of compare_grouped_matmul.py (indices), as up projections: gate and up are halves of N. With several
libraries (an older one first) each takes part in the same turns; --space adds the plans of the last one within these
limits. Quantised outputs of all contenders must agree to the byte. Times are medians in microseconds; "of plain" is
over the first library's plain matmul.
"""
import argparse
import concurrent.futures
import json

import torch

import compare_grouped_matmul as common

common.torch = torch

FUSIONS = {"plain": (False, False), "activation": (True, False), "quantised": (True, True)}
EXPRESSION = {"text": "value * gain + 0.25", "inputs": {"gain": {"dtype": "float32", "shape": "scalar"}}}


def parse():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("libraries", nargs="+")
    parser.add_argument("--shapes", default="0,2,4,10")
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--threads", type=int, default=16)
    parser.add_argument("--expression", action="store_true", help="also with a user expression after the activation")
    parser.add_argument("--space", action="append", default=[])
    return parser.parse_args()


def config_of(index, fusion, expression, space):
    _, groups, _, columns, depth = common.SHAPES[index]
    activation, quantise = FUSIONS[fusion]
    config = {"moegen": 1, "name": "compare", "hidden": depth, "intermediate": columns // 2, "num_experts": groups, "top_k": 1,
              "router": {"scoring": "softmax"}, "dtypes": {"weight": "float8_e4m3fn"}, "quantization": {"scheme": "block128"},
              "experts": {"fuse_activation": activation, "fuse_quantize": quantise}, "tune": {"space": space}}
    if expression:
        config["experts"]["up_epilogue"] = EXPRESSION
    return config


class Output:
    """Rows of c, and their scales where they are quantised."""

    def __init__(self, index, fusion, rows):
        columns = common.SHAPES[index][3] // (1 if fusion == "plain" else 2)
        quantised = fusion == "quantised"
        self.c = torch.full((rows, columns), 0x7F, device="cuda", dtype=torch.uint8 if quantised else torch.int16)
        self.scales = torch.zeros(rows, common.ceil_div(columns, 128), device="cuda") if quantised else None

    def same_bits(self, other):
        return torch.equal(self.c, other.c) and (self.scales is None or torch.equal(self.scales, other.scales))


def contender(label, fusion, moegen, kernel, index, inputs, gain):
    output = Output(index, fusion, inputs.rows)
    calls = []
    for b in inputs.b:
        args = common.MatmulArgs()
        args.c, args.a, args.b = output.c.data_ptr(), inputs.a.data_ptr(), b.data_ptr()
        args.c_scales = output.scales.data_ptr() if output.scales is not None else None
        args.a_scales, args.b_scales = inputs.block_a.data_ptr(), inputs.block_b.data_ptr()
        args.a_offsets, args.expert_ids = inputs.offsets.data_ptr(), inputs.ids.data_ptr()
        args.inputs[0] = gain.data_ptr()
        args.num_rows, args.num_groups = inputs.rows, inputs.groups
        args.max_num_tokens_per_expert = args.num_active_experts = -1
        calls.append(args)
    made = common.Contender(label, "block128", lambda copy: moegen.run(kernel, calls[copy]), lambda: output)
    made.fusion = fusion
    return made


def asked(options, shapes):
    """(shape, label, library, fusion, expression, space) of every kernel."""
    spaces = [(name, json.loads(text)) for name, text in (item.split("=", 1) for item in options.space)]
    for index in shapes:
        for library in range(len(options.libraries)):
            for fusion in FUSIONS:
                yield index, f"{library}", library, fusion, False, {}
                if options.expression and fusion == "activation":
                    yield index, f"{library} expression", library, fusion, True, {}
        for name, space in spaces:
            for fusion in ("activation", "quantised"):
                yield index, name, len(options.libraries) - 1, fusion, False, space


def build(engines, wanted, threads):
    def one(item):
        index, label, library, fusion, expression, space = item
        try:
            return engines[library].get(config_of(index, fusion, expression, space), "grouped_matmul.up")
        except RuntimeError as error:
            return f"left out: {label} {fusion}: {error}"

    def make_current():
        torch.zeros(1, device="cuda")

    with concurrent.futures.ThreadPoolExecutor(threads, initializer=make_current) as pool:
        return list(pool.map(one, wanted))


def differing(contenders):
    """Names of contenders whose bits are not those of the first of their kind."""
    first, wrong = {}, []
    for each in contenders:
        kind = (each.fusion, "expression" in each.name)
        if not each.result().same_bits(first.setdefault(kind, each).result()):
            wrong.append(f"{each.name} {each.fusion}")
    return wrong


def run_shape(index, items, kernels, engines, rounds):
    inputs = common.Inputs(index, True, 1 << 31)
    gain = torch.tensor([1.5], device="cuda")
    contenders = []
    for item, kernel in zip(items, kernels):
        if isinstance(kernel, str):
            print(kernel[:200], flush=True)
        else:
            contenders.append(contender(item[1], item[3], engines[item[2]], kernel, index, inputs, gain))
    for each in contenders:
        each.launch(0)
        torch.cuda.synchronize()
    wrong = differing(contenders)
    for each in contenders:
        common.capture(each, inputs.copies, 1600 if index == 0 else 500)
    common.take_turns(contenders, rounds)
    name, groups, _, columns, depth = common.SHAPES[index]
    print(f"{name} ({groups}, {inputs.rows}, {columns}, {depth}): " + (f"DIFFER: {wrong}" if wrong else "all alike to the bit"))
    plain = contenders[0].median()
    for each in contenders:
        print(f"  {each.name:24s} {each.fusion:11s} {each.median():8.1f} us  {each.median() / plain:6.3f} of plain  "
              f"least {min(each.times):8.1f}", flush=True)
    return not wrong


def main(options):
    torch.zeros(1, device="cuda")
    engines = [common.Moegen(path) for path in options.libraries]
    shapes = [int(word) for word in options.shapes.split(",")]
    wanted = list(asked(options, shapes))
    kernels = build(engines, wanted, options.threads)
    good = True
    for index in shapes:
        mine = [i for i, item in enumerate(wanted) if item[0] == index]
        good &= run_shape(index, [wanted[i] for i in mine], [kernels[i] for i in mine], engines, options.rounds)
        torch.cuda.empty_cache()
    return 0 if good else 1


if __name__ == "__main__":
    raise SystemExit(main(parse()))
