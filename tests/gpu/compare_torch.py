# SPDX-License-Identifier: Apache-2.0
"""Times create_indices and finalize through libmoegen.so beside torch, in one process, by CUDA graph replay.

usage: compare_torch.py LIBMOEGEN.SO [--json FILE]

A launch is timed as the median of 15 replays of a graph of about 1.5 ms (at most 200 launches) over rotating input sets
that together exceed the L2 cache. Outputs are poisoned and checked against torch before anything is timed.
"""
import argparse
import ctypes
import json
import statistics

import torch

POINTERS_INDICES = "topk_ids token_expert_order expert_start_indices restore_token_order expert_ids expert_usage_stats scales_offset workspace"
POINTERS_FINALIZE = "output down restore weights x topk_ids residual shared shared_gate bias"


class IndicesArgs(ctypes.Structure):
    _fields_ = [(name, ctypes.c_void_p) for name in POINTERS_INDICES.split()] + [("num_pairs", ctypes.c_int64)]


class FinalizeArgs(ctypes.Structure):
    _fields_ = [(name, ctypes.c_void_p) for name in POINTERS_FINALIZE.split()] + [
        ("inputs", ctypes.c_void_p * 8), ("num_tokens", ctypes.c_int64)]


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

    def workspace(self, kernel, args):
        size = ctypes.c_size_t()
        self.check(self.lib.moegen_kernel_workspace_bytes(kernel, ctypes.byref(args), ctypes.c_size_t(ctypes.sizeof(args)), ctypes.byref(size)))
        return torch.zeros(max(size.value, 1), dtype=torch.uint8, device="cuda")

    def run(self, kernel, args):
        stream = ctypes.c_void_p(torch.cuda.current_stream().cuda_stream)
        self.check(self.lib.moegen_kernel_run(kernel, ctypes.byref(args), ctypes.c_size_t(ctypes.sizeof(args)), stream))


def time_us(launch, sets):
    """Microseconds of one launch(set)."""
    stream = torch.cuda.Stream()

    def graph_of(count):
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, stream=stream):
            for i in range(count):
                launch(i % sets)
        return graph

    def replay(graph, count, rounds):
        times = []
        for _ in range(rounds + 3):
            start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
            start.record(stream)
            graph.replay()
            end.record(stream)
            end.synchronize()
            times.append(1e3 * start.elapsed_time(end) / count)
        return statistics.median(times[3:])

    with torch.cuda.stream(stream):
        launch(0)
        torch.cuda.synchronize()
        rough = replay(graph_of(10), 10, 3)
        count = max(5, min(200, int(1500 / max(rough, 0.5))))
        return replay(graph_of(count), count, 15)


def base_config(hidden):
    return {"moegen": 1, "name": "bench", "hidden": hidden, "intermediate": 2048, "num_experts": 256, "top_k": 8,
            "router": {"scoring": "softmax"}}


def indices_row(moegen, pairs):
    kernel = moegen.get(base_config(7168), "create_indices")
    ids = [torch.randint(0, 256, (pairs,), device="cuda", dtype=torch.int32) for _ in range(8)]
    order, restore = (torch.full((pairs,), -7, device="cuda", dtype=torch.int32) for _ in range(2))
    starts, experts = (torch.full((257,), -7, device="cuda", dtype=torch.int32) for _ in range(2))
    stats = torch.full((2,), -7, device="cuda", dtype=torch.int32)
    args = [IndicesArgs(i.data_ptr(), order.data_ptr(), starts.data_ptr(), restore.data_ptr(), experts.data_ptr(),
                        stats.data_ptr(), None, None, pairs) for i in ids]
    workspace = moegen.workspace(kernel, args[0])
    for a in args:
        a.workspace = workspace.data_ptr()
    moegen.run(kernel, args[0])
    want = torch.argsort(ids[0], stable=True)
    assert torch.equal(order.long(), want), "token_expert_order differs from torch's stable argsort"
    inverse = torch.empty_like(want)
    inverse[want] = torch.arange(pairs, device="cuda")
    assert torch.equal(restore.long(), inverse), "restore_token_order is not the inverse"
    ours = time_us(lambda s: moegen.run(kernel, args[s]), len(ids))
    theirs = time_us(lambda s: torch.argsort(ids[s], stable=True), len(ids))
    return {"kernel": "create_indices", "pairs": pairs, "us": ours, "torch_argsort_us": theirs}


def finalize_row(moegen, hidden, tokens, k=8):
    kernel = moegen.get(base_config(hidden), "finalize")
    moved = tokens * (k + 1) * hidden * 2
    sets = max(2, min(16, (160 << 20) // moved + 1))
    tensors, args = [], []
    for _ in range(sets):
        down = torch.randn(tokens * k, hidden, device="cuda", dtype=torch.bfloat16)
        restore = torch.randperm(tokens * k, device="cuda").int()
        weights = torch.rand(tokens, k, device="cuda")
        output = torch.full((tokens, hidden), float("nan"), device="cuda", dtype=torch.bfloat16)
        tensors.append((down, restore, weights, output))
        args.append(FinalizeArgs(output.data_ptr(), down.data_ptr(), restore.data_ptr(), weights.data_ptr(),
                                 None, None, None, None, None, None, (ctypes.c_void_p * 8)(), tokens))
    moegen.run(kernel, args[0])
    down, restore, weights, output = tensors[0]
    part = slice(0, min(tokens, 512))
    rows = down[restore[: part.stop * k].long()].view(part.stop, k, hidden).double()
    want = (rows * weights[part, :, None].double()).sum(1)
    error = ((output[part].double() - want).norm() / want.norm()).item()
    assert error < 2.5e-3, f"finalize is off by {error}"
    source = [torch.empty(moved // 4, device="cuda", dtype=torch.bfloat16) for _ in range(sets)]
    target = [torch.empty_like(s) for s in source]
    copies, ours = [], []
    for _ in range(3):  # interleaved: a card's clocks drift
        copies.append(time_us(lambda s: target[s].copy_(source[s]), sets))
        ours.append(time_us(lambda s: moegen.run(kernel, args[s]), sets))
    copy, us = statistics.median(copies), statistics.median(ours)
    return {"kernel": "finalize", "hidden": hidden, "tokens": tokens, "us": us, "torch_copy_us": copy, "ratio": us / copy}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("library")
    parser.add_argument("--json")
    options = parser.parse_args()
    torch.zeros(1, device="cuda")  # makes torch's context current
    moegen = Moegen(options.library)
    rows = [indices_row(moegen, pairs) for pairs in (8, 128, 1024, 8192, 32768, 131072, 524288)]
    for row in rows:
        print("create_indices pairs {pairs:>7}: {us:7.2f} us, torch argsort {torch_argsort_us:7.2f} us".format(**row))
    for hidden in (7168, 4096):
        for tokens in (1, 16, 128, 1024, 4096, 16384):
            rows.append(finalize_row(moegen, hidden, tokens))
            print("finalize hidden {hidden} tokens {tokens:>5}: {us:7.2f} us, copy of the same bytes {torch_copy_us:7.2f} us, "
                  "ratio {ratio:.3f}".format(**rows[-1]))
    print(torch.cuda.get_device_name())
    if options.json:
        with open(options.json, "w", encoding="utf-8") as file:
            json.dump(rows, file, indent=1)


if __name__ == "__main__":
    main()
