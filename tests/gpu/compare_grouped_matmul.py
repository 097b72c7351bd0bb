# SPDX-License-Identifier: Apache-2.0
"""Times grouped_matmul through libmoegen.so beside torch and DeepGEMM, in one process, on the same inputs.

usage: compare_grouped_matmul.py LIBMOEGEN.SO [--shapes LIST] [--schemes LIST] [--seconds N] [--json FILE] ...

Every contender of a shape is a CUDA graph of several launches that rotate over copies of the weights, so that no L2 cache
helps. The graphs take turns, round after round in random order, on a card that is hot; the median counts. A
contender's result is compared with float64 on the rows at the ends of every group before it is timed; memory behind c
must stay untouched. DeepGEMM takes part where it can be imported, with the faster of its two layouts; its kernels are
compiled beforehand by processes of their own (--warm 0: not).

Shapes: indices into the table (0-13), or parts of names ("decode"). Schemes: bf16, rowwise, rowwise_fast, block128,
block128_column, mxfp8 (DeepGEMM: its block128). Times are microseconds; "x torch" and "x DeepGEMM" are their time over ours.
"""
import argparse
import concurrent.futures
import ctypes
import json
import math
import os
import random
import statistics
import subprocess
import sys
import time
import zlib

# Name, groups, mean rows of a group, N, K.
SHAPES = [
    ("dsv3 up prefill", 8, 4096, 4096, 7168),
    ("dsv3 down prefill", 8, 4096, 7168, 2048),
    ("dsv3 up 32g", 32, 256, 4096, 7168),
    ("dsv3 down 32g", 32, 256, 7168, 2048),
    ("qwen3-235b up", 128, 512, 3072, 4096),
    ("qwen3-235b down", 128, 512, 4096, 1536),
    ("mixtral up", 8, 1024, 28672, 4096),
    ("mixtral down", 8, 1024, 4096, 14336),
    ("qwen3-30b up", 128, 64, 1536, 2048),
    ("gptoss up", 32, 128, 5760, 2880),
    ("dsv3 up decode", 32, 8, 4096, 7168),
    ("dsv3 down decode", 32, 8, 7168, 2048),
    ("qwen3-235b decode", 128, 4, 3072, 4096),
    ("mixtral decode", 8, 4, 28672, 4096),
]
FP8_SCHEMES = ("rowwise", "rowwise_fast", "block128", "block128_column", "mxfp8")
SCHEMES = ("bf16",) + FP8_SCHEMES
CANARY_ROWS = 64
GBPS_ROWS, DECODE_ROWS = 64, 8  # mean rows of a group up to which a row is in GB/s, and is held to the copy roof
SPREAD = 150.0  # of float8 codes: normal values as a quantiser leaves them
LIMITS = {"bf16": 2.5e-3, "rowwise": 2.5e-3, "rowwise_fast": 5e-3, "block128": 2.5e-3, "block128_column": 2.5e-3,
          "mxfp8": 2.5e-3}


def counts_of_shapes():
    """Rows of each group, drawn uniformly within 30 % of the mean; the same in every run and whatever is selected."""
    generator = random.Random(1)
    return [[max(1, int(mean * generator.uniform(0.7, 1.3))) for _ in range(groups)] for _, groups, mean, _, _ in SHAPES]


COUNTS = counts_of_shapes()


def ceil_div(a, b):
    return -(-a // b)


def first_line(error):
    return (str(error).strip().splitlines() or [repr(error)])[0][:300]


def round_up(a, b):
    return ceil_div(a, b) * b


class MatmulArgs(ctypes.Structure):
    """moegen_grouped_matmul_args of moegen.h."""
    _fields_ = ([(name, ctypes.c_void_p) for name in
                 "c c_scales a b a_scales b_scales a_offsets expert_ids bias limits order".split()]
                + [("inputs", ctypes.c_void_p * 8)]
                + [(name, ctypes.c_int64) for name in
                   "num_rows num_groups a_scales_stride c_scales_stride max_num_tokens_per_expert num_active_experts".split()])


class Moegen:
    """The C interface, as far as this script needs it."""

    def __init__(self, path):
        self.lib = ctypes.CDLL(path)
        self.lib.moegen_last_error.restype = ctypes.c_char_p
        self.engine = ctypes.c_void_p()
        self.check(self.lib.moegen_engine_create(None, ctypes.byref(self.engine)))

    def check(self, status):
        if status != 0:
            raise RuntimeError(self.lib.moegen_last_error().decode())

    def get(self, config, kernel):
        handle = ctypes.c_void_p()
        self.check(self.lib.moegen_engine_get(self.engine, json.dumps(config).encode(), kernel.encode(), ctypes.byref(handle)))
        return handle

    def run(self, kernel, args):
        stream = ctypes.c_void_p(torch.cuda.current_stream().cuda_stream)
        self.check(self.lib.moegen_kernel_run(kernel, ctypes.byref(args), ctypes.c_size_t(ctypes.sizeof(args)), stream))


def config_of(index, scheme):
    """The shape as a down projection: K = intermediate, N = hidden."""
    _, groups, _, columns, depth = SHAPES[index]
    config = {"moegen": 1, "name": "compare", "hidden": columns, "intermediate": depth, "num_experts": groups, "top_k": 1,
              "router": {"scoring": "softmax"}, "max_tokens": max(8192, sum(COUNTS[index])),
              "tune": {"num_tokens": [sum(COUNTS[index])]}}
    if scheme == "bf16":
        return config
    fast = "fast" if scheme == "rowwise_fast" else "float32"
    config["dtypes"] = {"weight": "float8_e4m3fn", "accumulate": fast}
    config["quantization"] = {"scheme": scheme.split("_")[0]}
    if scheme == "block128_column":
        config["quantization"]["scale_layout"] = "column"
    return config


class Inputs:
    """Tensors of one shape in one precision: rows, `copies` of the weights, scales."""

    def __init__(self, index, fp8, copies_bytes):
        name, self.groups, self.mean, self.columns, self.depth = SHAPES[index]
        self.index, self.counts = index, COUNTS[index]
        self.rows = sum(self.counts)
        self.fp8 = fp8
        torch.manual_seed(zlib.crc32(name.encode()))
        self.a = self.random(self.rows)
        weights = torch.empty(self.groups, self.columns, self.depth, device="cuda", dtype=self.a.dtype)
        for group in range(self.groups):
            weights[group] = self.random(self.columns)
        size = weights.numel() * weights.element_size()
        self.copies = max(2, min(8, ceil_div(copies_bytes, size))) if copies_bytes else 1
        self.b = [weights] + [weights.clone() for _ in range(self.copies - 1)]
        starts = [0]
        for count in self.counts:
            starts.append(starts[-1] + count)
        self.starts = starts
        self.offsets = torch.tensor(starts, device="cuda", dtype=torch.int32)
        self.ends = self.offsets[1:].contiguous()
        self.ids = torch.arange(self.groups, device="cuda", dtype=torch.int32)
        self.flops = 2.0 * self.rows * self.columns * self.depth
        size = self.a.element_size()
        self.bytes = size * (self.rows * self.depth + weights.numel()) + 2 * self.rows * self.columns
        if fp8:
            self.make_scales()

    def random(self, rows):
        values = torch.randn(rows, self.depth, device="cuda", dtype=torch.float32)
        if not self.fp8:
            return values.to(torch.bfloat16)
        return (values * SPREAD).clamp_(-448, 448).to(torch.float8_e4m3fn)

    def make_scales(self):
        blocks, wide = ceil_div(self.depth, 128), ceil_div(self.columns, 128)

        def scales(*shape):
            return (torch.rand(*shape, device="cuda") + 0.5) / SPREAD

        self.row_a, self.row_b = scales(self.rows), scales(self.groups, self.columns)
        self.block_a, self.block_b = scales(self.rows, blocks), scales(self.groups, wide, blocks)
        self.mx_a, self.mx_b = self.mx_scales(self.rows), self.mx_scales(self.groups, self.columns)
        self.stride = round_up(self.rows, 4)
        self.column_a = torch.full((blocks, self.stride), float("nan"), device="cuda")
        self.column_a[:, :self.rows] = self.block_a.t()

    def mx_scales(self, *shape):
        """Codes of float8_e8m0fnu: 2^-8 to 2^-6."""
        return torch.randint(119, 122, (*shape, ceil_div(self.depth, 32)), device="cuda", dtype=torch.uint8)

    def scaled_mx(self, values, codes):
        return values * torch.exp2(codes.double() - 127).repeat_interleave(32, 1)[:, :self.depth]

    def reference(self, scheme, group, rows):
        """float64 of `rows` (positions in all rows) of `group`."""
        a, b = gather(self.a, rows).float().double(), self.b[0][group].float().double()
        if scheme.startswith("block128"):
            a *= self.block_a[rows].double().repeat_interleave(128, 1)[:, :self.depth]
            b *= self.block_b[group].double().repeat_interleave(128, 0)[:self.columns].repeat_interleave(128, 1)[:, :self.depth]
        if scheme == "mxfp8":
            a, b = self.scaled_mx(a, self.mx_a[rows]), self.scaled_mx(b, self.mx_b[group])
        c = a @ b.t()
        if scheme.startswith("rowwise"):
            c *= self.row_a[rows, None].double() * self.row_b[group].double()
        return c


class Contender:
    """Something that multiplies: launch(copy) puts one call on the current stream, result() is its c of copy 0."""

    def __init__(self, name, scheme, launch, result, canary=None):
        self.name, self.scheme, self.launch, self.result, self.canary = name, scheme, launch, result, canary
        self.times, self.graph, self.inner, self.error = [], None, 0, None

    def median(self):
        return statistics.median(self.times)


def check(contender, inputs):
    """Relative error of the norm over the rows at both ends of every group."""
    contender.launch(0)
    torch.cuda.synchronize()
    c, difference, norm = contender.result(), 0.0, 0.0
    for group in range(inputs.groups):
        begin, end = inputs.starts[group], inputs.starts[group + 1]
        rows = torch.tensor(sorted(set(list(range(begin, min(begin + 3, end))) + list(range(max(end - 5, begin), end)))), device="cuda")
        want = inputs.reference(contender.scheme, group, rows)
        difference += (c[rows].double() - want).pow(2).sum()
        norm += want.pow(2).sum()
    contender.error = math.sqrt(float(difference) / float(norm))
    if not contender.error < LIMITS[contender.scheme]:  # NaN is not below anything
        raise RuntimeError(f"error {contender.error:.3g}, more than {LIMITS[contender.scheme]:.3g}")
    if contender.canary is not None and not bool(contender.canary().isnan().all()):
        raise RuntimeError("memory behind c was written")


def moegen_contender(moegen, kernels, index, scheme, inputs, hints):
    kernel = kernels[(index, scheme)]
    c = torch.full((inputs.rows + CANARY_ROWS, inputs.columns), float("nan"), device="cuda", dtype=torch.bfloat16)
    calls = []
    for b in inputs.b:
        args = MatmulArgs()
        args.c, args.a, args.b = c.data_ptr(), inputs.a.data_ptr(), b.data_ptr()
        if scheme.startswith("rowwise"):
            args.a_scales, args.b_scales = inputs.row_a.data_ptr(), inputs.row_b.data_ptr()
        elif scheme == "block128":
            args.a_scales, args.b_scales = inputs.block_a.data_ptr(), inputs.block_b.data_ptr()
        elif scheme == "mxfp8":
            args.a_scales, args.b_scales = inputs.mx_a.data_ptr(), inputs.mx_b.data_ptr()
        elif scheme == "block128_column":
            args.a_scales, args.b_scales = inputs.column_a.data_ptr(), inputs.block_b.data_ptr()
            args.a_scales_stride = inputs.stride
        args.a_offsets, args.expert_ids = inputs.offsets.data_ptr(), inputs.ids.data_ptr()
        args.num_rows, args.num_groups = inputs.rows, inputs.groups
        args.max_num_tokens_per_expert = max(inputs.counts) if hints else -1
        args.num_active_experts = inputs.groups if hints else -1
        calls.append(args)
    return Contender("moegen", scheme, lambda copy: moegen.run(kernel, calls[copy]), lambda: c[:inputs.rows], lambda: c[inputs.rows:])


def torch_contenders(schemes, inputs):
    def keep(function):
        held = {}

        def launch(copy):
            held["c"] = function(inputs.b[copy].transpose(-1, -2))

        return launch, lambda: held["c"]

    found = []
    if "bf16" in schemes and not inputs.fp8:
        found.append(Contender("torch", "bf16", *keep(lambda b: torch._grouped_mm(inputs.a, b, inputs.ends))))
    for scheme, fast in (("rowwise", False), ("rowwise_fast", True)):
        if scheme in schemes and inputs.fp8:
            found.append(Contender("torch", scheme, *keep(
                lambda b, fast=fast: torch._scaled_grouped_mm(inputs.a, b, inputs.row_a, inputs.row_b, inputs.ends,
                                                              out_dtype=torch.bfloat16, use_fast_accum=fast))))
    return found


def gather(rows, positions, valid=None):
    """rows[positions], with zeros where not `valid`; also for float8."""
    if rows.dtype == torch.float8_e4m3fn:
        return gather(rows.view(torch.uint8), positions, valid).view(torch.float8_e4m3fn)
    picked = rows[positions]
    return picked if valid is None else picked * valid[:, None]


def deepgemm_contiguous(inputs):
    """Segments padded to the alignment that DeepGEMM asks for; -1 marks padding."""
    alignment = deep_gemm.get_theoretical_mk_alignment_for_contiguous_layout()
    deep_gemm.set_mk_alignment_for_contiguous_layout(alignment)
    padded = [round_up(count, alignment) for count in inputs.counts]
    layout = torch.full((sum(padded),), -1, dtype=torch.int32)
    positions = torch.zeros(sum(padded), dtype=torch.int64)
    places, start = [], 0
    for group, count in enumerate(inputs.counts):
        layout[start:start + count] = group
        positions[start:start + count] = torch.arange(inputs.starts[group], inputs.starts[group] + count)
        places.append(torch.arange(start, start + count))
        start += padded[group]
    layout, positions, places = layout.cuda(), positions.cuda(), torch.cat(places).cuda()
    a = gather(inputs.a, positions, layout >= 0)
    c = torch.empty(sum(padded), inputs.columns, device="cuda", dtype=torch.bfloat16)
    if inputs.fp8:
        scales = deep_gemm.get_mn_major_tma_aligned_tensor(inputs.block_a[positions].contiguous())
        launch = lambda copy: deep_gemm.m_grouped_fp8_gemm_nt_contiguous((a, scales), (inputs.b[copy], inputs.block_b), c, layout)
    else:
        launch = lambda copy: deep_gemm.m_grouped_bf16_gemm_nt_contiguous(a, inputs.b[copy], c, layout)
    return launch, lambda: c[places]


def deepgemm_masked(inputs):
    """A cube of the largest group's rows for every group."""
    most = round_up(max(inputs.counts), 128)
    counts = torch.tensor(inputs.counts, dtype=torch.int32, device="cuda")
    positions = torch.zeros(inputs.groups, most, dtype=torch.int64)
    places = []
    for group, count in enumerate(inputs.counts):
        positions[group, :count] = torch.arange(inputs.starts[group], inputs.starts[group] + count)
        places.append(group * most + torch.arange(count))
    positions, places = positions.view(-1).cuda(), torch.cat(places).cuda()
    a = gather(inputs.a, positions).view(inputs.groups, most, inputs.depth)
    c = torch.empty(inputs.groups, most, inputs.columns, device="cuda", dtype=torch.bfloat16)
    if inputs.fp8:
        scales = deep_gemm.get_mn_major_tma_aligned_tensor(inputs.block_a[positions].view(inputs.groups, most, -1).contiguous())
        launch = lambda copy: deep_gemm.m_grouped_fp8_gemm_nt_masked((a, scales), (inputs.b[copy], inputs.block_b), c, counts, inputs.mean)
    else:
        launch = lambda copy: deep_gemm.m_grouped_bf16_gemm_nt_masked(a, inputs.b[copy], c, counts, inputs.mean)
    return launch, lambda: c.view(-1, inputs.columns)[places]


def deepgemm_contenders(inputs):
    scheme = "block128" if inputs.fp8 else "bf16"
    found = [Contender("DeepGEMM contiguous", scheme, *deepgemm_contiguous(inputs))]
    if inputs.mean <= 512:  # beyond, its cube is no layout that anybody would use
        found.append(Contender("DeepGEMM masked", scheme, *deepgemm_masked(inputs)))
    return found


class CopyRoof:
    """1 GiB read and as much written, timed in every round. By a kernel: what copy_ asks the driver for went at 2.7 TB/s
    on one machine where this went at 4.2."""

    def __init__(self):
        self.source = torch.zeros(1 << 28, device="cuda", dtype=torch.float32)
        self.target = torch.empty_like(self.source)
        self.contender = Contender("copy", "copy", lambda copy: torch.add(self.source, 1.0, out=self.target), lambda: None)

    def gbps(self):
        return 2 * self.source.numel() * 4 / self.contender.median() / 1e3


def capture(contender, copies, rough_us):
    """A graph of about 3 ms that rotates over the copies."""
    contender.inner = copies * max(1, min(16, round(3000 / rough_us / copies)))
    contender.launch(0)
    torch.cuda.synchronize()
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        contender.launch(0)
    torch.cuda.synchronize()
    contender.graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(contender.graph):
        for i in range(contender.inner):
            contender.launch(i % copies)


def time_once(contender):
    start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    start.record()
    contender.graph.replay()
    end.record()
    end.synchronize()
    return 1e3 * start.elapsed_time(end) / contender.inner


def take_turns(contenders, rounds):
    """Every round in an order of its own: in a fixed one, and forwards and backwards in turn, a contender's place among
    the others moved its median by 3 %. The first round heats the card and is not counted."""
    generator, order = random.Random(1), list(contenders)
    for i in range(rounds + 1):
        generator.shuffle(order)
        for contender in order:
            us = time_once(contender)
            if i > 0:
                contender.times.append(us)


def best(contenders, name, scheme):
    times = [c.median() for c in contenders if c.name.startswith(name) and c.scheme == scheme and c.times]
    return min(times) if times else None


def row_of(index, scheme, contenders, inputs, copy_gbps):
    ours = next((c for c in contenders if c.name == "moegen" and c.scheme == scheme), None)
    if ours is None or not ours.times:
        return None
    us = ours.median()
    theirs = best(contenders, "torch", scheme)
    deepgemm = best(contenders, "DeepGEMM", "bf16" if scheme == "bf16" else "block128")
    gbps = inputs.bytes / us / 1e3
    return {"shape": SHAPES[index][0], "scheme": scheme, "rows": inputs.rows, "us": us, "tflops": inputs.flops / us / 1e6,
            "gbps": gbps, "roof_share": gbps / copy_gbps, "copy_gbps": copy_gbps, "torch_us": theirs, "deepgemm_us": deepgemm,
            "x_torch": theirs / us if theirs else None, "x_deepgemm": deepgemm / us if deepgemm else None,
            "in_gbps": inputs.mean <= GBPS_ROWS, "decode": inputs.mean <= DECODE_ROWS, "error": ours.error, "copies": inputs.copies,
            "min_us": min(ours.times), "max_us": max(ours.times),
            "all": {f"{c.name} {c.scheme}": c.median() for c in contenders if c.times}}


def text_of(row):
    def ratio(value):
        return f"{value:6.3f}" if value else "     -"

    speed = f"{row['gbps']:6.0f} GB/s" if row["in_gbps"] else f"{row['tflops']:6.0f} TF  "
    return (f"{row['shape']:18s} {row['scheme']:15s} {row['us']:8.1f} us {speed} x torch {ratio(row['x_torch'])} "
            f"x DeepGEMM {ratio(row['x_deepgemm'])} roof {row['roof_share']:.3f} error {row['error']:.1e}")


def markdown(rows):
    """The table of docs/kernels.md: a row for each shape and scheme."""
    def ratio(value):
        return f"{value:.2f}" if value else "-"

    lines = ["| shape (groups, rows, N, K) | scheme | us | TF or GB/s | x torch | x DeepGEMM | of the copy roof |",
             "| --- | --- | --- | --- | --- | --- | --- |"]
    for row in rows:
        _, groups, _, columns, depth = next(shape for shape in SHAPES if shape[0] == row["shape"])
        speed = f"{row['gbps']:.0f} GB/s" if row["in_gbps"] else f"{row['tflops']:.0f} TF"
        lines.append(f"| {row['shape']} ({groups}, {row['rows']}, {columns}, {depth}) | {row['scheme']} | {row['us']:.1f} | {speed} | "
                     f"{ratio(row['x_torch'])} | {ratio(row['x_deepgemm'])} | {ratio(row['roof_share']) if row['decode'] else '-'} |")
    return lines


def geomean(values):
    return math.exp(sum(math.log(v) for v in values) / len(values))


def summary(rows):
    lines = []
    for scheme in SCHEMES:
        of_scheme = [row for row in rows if row["scheme"] == scheme]
        for key, words in (("x_torch", "x torch"), ("x_deepgemm", "x DeepGEMM")):
            values = [(row[key], row["shape"]) for row in of_scheme if row[key]]
            if values:
                low, where = min(values)
                lines.append(f"geomean {scheme:15s} {words:10s} {geomean([v for v, _ in values]):.3f} "
                             f"over {len(values):2d}, least {low:.3f} ({where})")
        shares = [(row["roof_share"], row["shape"]) for row in of_scheme if row["decode"]]
        if shares:
            low, where = min(shares)
            lines.append(f"geomean {scheme:15s} roof share {geomean([v for v, _ in shares]):.3f} "
                         f"over {len(shares):2d}, least {low:.3f} ({where})")
    return lines


def contenders_of(moegen, kernels, index, schemes, inputs, options):
    found = [moegen_contender(moegen, kernels, index, scheme, inputs, options.hints) for scheme in schemes if (index, scheme) in kernels]
    found += torch_contenders(schemes, inputs)
    if deep_gemm:
        try:
            found += deepgemm_contenders(inputs)
        except Exception as error:  # pylint: disable=broad-except  # a layout that it refuses
            print(f"left out: DeepGEMM: {first_line(error)}", flush=True)
    return found


def prepare(contenders, inputs, rough_us):
    """Checks and captures; a contender that fails is named and left out."""
    ready = []
    for contender in contenders:
        try:
            check(contender, inputs)
            capture(contender, inputs.copies, rough_us)
            ready.append(contender)
        except Exception as error:  # pylint: disable=broad-except  # whatever a peer throws: say it, go on with the others
            print(f"left out: {SHAPES[inputs.index][0]}: {contender.name} {contender.scheme}: {first_line(error)}", flush=True)
    return ready


def run_shape(moegen, kernels, roof, index, fp8, schemes, options):
    inputs = Inputs(index, fp8, options.weight_bytes)
    rough = max(inputs.flops / (900e6 if fp8 else 550e6), inputs.bytes / 4e6)
    contenders = prepare(contenders_of(moegen, kernels, index, schemes, inputs, options), inputs, rough)
    roof.contender.times.clear()
    take_turns([roof.contender] + contenders, options.rounds)
    rows = [row_of(index, scheme, contenders, inputs, roof.gbps()) for scheme in schemes]
    for contender in contenders:
        contender.graph = None
    return [row for row in rows if row]


def build_kernels(moegen, wanted):
    """All kernels on all cores; what moegen refuses is named."""
    def one(key):
        torch.cuda.set_device(0)
        torch.zeros(1, device="cuda")  # makes the context current on this thread
        try:
            return key, moegen.get(config_of(*key), "grouped_matmul.down"), None
        except RuntimeError as error:
            return key, None, first_line(error)

    kernels = {}
    with concurrent.futures.ThreadPoolExecutor(min(16, os.cpu_count() or 1)) as pool:
        for key, kernel, error in pool.map(one, wanted):
            if error:
                print(f"refused: {SHAPES[key[0]][0]} {key[1]}: {error}", flush=True)
            else:
                kernels[key] = kernel
    return kernels


def warm_deepgemm(index, fp8):
    """Compiles the kernels that DeepGEMM chooses for a shape; nothing is measured."""
    for contender in deepgemm_contenders(Inputs(index, fp8, 0)):
        try:
            contender.launch(0)
            torch.cuda.synchronize()
        except Exception as error:  # pylint: disable=broad-except
            print(f"not compiled: {SHAPES[index][0]} {contender.name}: {error!r}"[:300], flush=True)


def warm_all(jobs, processes):
    """One process for each (shape, precision): DeepGEMM compiles in the process that calls it."""
    def one(job):
        return subprocess.run([sys.executable, os.path.abspath(__file__), "-", "--warm-one", f"{job[0]},{int(job[1])}"], check=False,
                              capture_output=True, text=True)

    with concurrent.futures.ThreadPoolExecutor(processes) as pool:
        for done in pool.map(one, jobs):
            if done.returncode != 0 or done.stdout.strip():
                print((done.stdout.strip() or done.stderr.strip().splitlines()[-1])[:300], flush=True)


def chosen_shapes(text):
    if not text:
        return list(range(len(SHAPES)))
    found = []
    for part in text.split(","):
        matches = [int(part)] if part.strip().isdigit() else [i for i, s in enumerate(SHAPES) if part.strip() in s[0]]
        if not matches or max(matches) >= len(SHAPES):
            sys.exit(f"no shape '{part}'; allowed 0-{len(SHAPES) - 1} or a part of: " + ", ".join(s[0] for s in SHAPES))
        found += [i for i in matches if i not in found]
    return found


def chosen_schemes(text):
    schemes = [part.strip() for part in text.split(",")]
    for scheme in schemes:
        if scheme not in SCHEMES:
            sys.exit(f"no scheme '{scheme}'; allowed {', '.join(SCHEMES)}")
    return schemes


def parse():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("library")
    parser.add_argument("--shapes", default="", help="indices or parts of names, comma-separated; default: all 14")
    parser.add_argument("--schemes", default="bf16,rowwise,rowwise_fast,block128")
    parser.add_argument("--seconds", type=float, default=1e9, help="no shape begins after that many seconds")
    parser.add_argument("--rounds", type=int, default=11)
    parser.add_argument("--weight-bytes", type=int, default=2 << 30, help="least bytes of all copies of a weight tensor")
    parser.add_argument("--hints", action="store_true", help="tell moegen the largest group and the number of groups")
    parser.add_argument("--warm", type=int, default=14, help="processes that compile DeepGEMM's kernels beforehand; 0: none")
    parser.add_argument("--no-deepgemm", action="store_true")
    parser.add_argument("--json", help="file for all rows, written after every shape")
    parser.add_argument("--markdown", help="file for the table of docs/kernels.md")
    parser.add_argument("--warm-one", help=argparse.SUPPRESS)
    return parser.parse_args()


def save(rows, path):
    if path:
        with open(path, "w", encoding="utf-8") as file:
            json.dump(rows, file, indent=1)


def main(options):
    start = time.time()
    shapes, schemes = chosen_shapes(options.shapes), chosen_schemes(options.schemes)
    jobs = [(index, fp8) for index in shapes for fp8 in (False, True) if any((s != "bf16") == fp8 for s in schemes)]
    torch.backends.cuda.matmul.allow_tf32 = False
    torch.zeros(1, device="cuda")  # makes torch's context current
    if deep_gemm and options.warm > 0:
        warm_all(jobs, options.warm)
    moegen = Moegen(options.library)
    kernels = build_kernels(moegen, [(index, scheme) for index in shapes for scheme in schemes])
    print(f"{torch.cuda.get_device_name()}, torch {torch.__version__}, DeepGEMM {'yes' if deep_gemm else 'no'}, "
          f"{len(kernels)} kernels ready after {time.time() - start:.1f} s", flush=True)
    roof, rows, left_out = CopyRoof(), [], 0
    capture(roof.contender, 1, 500)
    for index, fp8 in jobs:
        if time.time() - start > options.seconds:
            left_out += 1
            continue
        try:
            new = run_shape(moegen, kernels, roof, index, fp8, [s for s in schemes if (s != "bf16") == fp8], options)
        except torch.cuda.OutOfMemoryError as error:
            print(f"left out: {SHAPES[index][0]}: {first_line(error)}", flush=True)
            new = []
        torch.cuda.empty_cache()
        for row in new:
            print(text_of(row), flush=True)
        rows += new
        save(rows, options.json)
    if options.markdown:
        with open(options.markdown, "w", encoding="utf-8") as file:
            file.write("\n".join(markdown(rows)) + "\n")
    if left_out:
        print(f"{left_out} of {len(jobs)} not begun within {options.seconds:.0f} s")
    for line in summary(rows):
        print(line)
    print(f"copy roof {statistics.median(row['copy_gbps'] for row in rows):.0f} GB/s, {time.time() - start:.1f} s" if rows else "nothing measured")


if __name__ == "__main__":
    OPTIONS = parse()
    import torch
    deep_gemm = None
    if not OPTIONS.no_deepgemm:
        try:
            import deep_gemm
        except Exception as error:  # pylint: disable=broad-except  # also an extension built for another torch
            print(f"DeepGEMM cannot be imported: {error!r}"[:200], flush=True)
            deep_gemm = None
    if OPTIONS.warm_one:
        SHAPE, PRECISION = OPTIONS.warm_one.split(",")
        warm_deepgemm(int(SHAPE), PRECISION == "1")
    else:
        main(OPTIONS)
