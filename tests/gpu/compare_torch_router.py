# SPDX-License-Identifier: Apache-2.0
"""Times router, and router with create_indices behind it, through libmoegen.so beside the same rule in torch.

usage: compare_torch_router.py LIBMOEGEN.SO [--json FILE]

One process, CUDA graph replay, as compare_torch.py does it. Ids and weights are checked against float64 first; a row may
differ only where its own keys are closer than 1e-5.
"""
import argparse
import ctypes
import json

import torch

from compare_torch import IndicesArgs, Moegen, time_us

POINTERS = "expert_indices expert_weights logits"


class RouterArgs(ctypes.Structure):
    _fields_ = [(name, ctypes.c_void_p) for name in POINTERS.split()] + [
        ("row_stride", ctypes.c_int64), ("bias", ctypes.c_void_p), ("token_ids", ctypes.c_void_p), ("table", ctypes.c_void_p),
        ("inputs", ctypes.c_void_p * 8), ("num_tokens", ctypes.c_int64), ("scale", ctypes.c_float)]


RULES = {
    "DeepSeek-V3": (256, {"scoring": "sigmoid", "bias": "float32", "num_groups": 8, "top_groups": 4, "group_score": "top2_sum"}),
    "softmax 128": (128, {"scoring": "softmax"}),
    "Kimi K2 384": (384, {"scoring": "sigmoid", "bias": "float32"}),
}


def config_of(experts, router):
    return {"moegen": 1, "name": "bench", "hidden": 7168, "intermediate": 2048, "num_experts": experts, "top_k": 8,
            "router": router}


def torch_rule(logits, bias, router):
    """The rule in torch; gives (keys, ids, weights)."""
    scores = torch.softmax(logits, -1) if router["scoring"] == "softmax" else torch.sigmoid(logits)
    keys = scores if bias is None else scores + bias
    if "num_groups" in router:
        grouped = keys.view(len(keys), router["num_groups"], -1)
        groups = grouped.topk(2, -1)[0].sum(-1).topk(router["top_groups"], -1)[1]
        mask = torch.ones(grouped.shape[:2], device=keys.device, dtype=torch.bool).scatter_(1, groups, False)
        keys = grouped.masked_fill(mask[..., None], float("-inf")).flatten(1)
    ids = keys.topk(8, -1)[1]
    weights = scores.gather(1, ids)
    return keys, ids, weights / weights.sum(-1, keepdim=True)


def check(logits, bias, router, ids, weights):
    part = slice(0, min(len(logits), 4096))
    keys, want, _ = torch_rule(logits[part].double(), None if bias is None else bias.double(), router)
    got = ids[part].long()
    rows = (got != want).any(-1)
    close = (keys.topk(9, -1)[0].diff(dim=-1).abs() < 1e-5).any(-1)
    assert (rows & ~close).sum() <= 2, f"{int((rows & ~close).sum())} rows have other experts"  # groups may be close, too
    scores = torch.softmax(logits[part].double(), -1) if router["scoring"] == "softmax" else torch.sigmoid(logits[part].double())
    chosen = scores.gather(1, got)
    wrong = (weights[part].double() / (chosen / chosen.sum(-1, keepdim=True)) - 1).abs().max()
    assert wrong < 4e-6, f"weights are off by {float(wrong)}"


def row(moegen, name, tokens):
    experts, router = RULES[name]
    config = config_of(experts, router)
    route, group = moegen.get(config, "router"), moegen.get(config, "create_indices")
    sets = max(2, min(16, (160 << 20) // (tokens * experts * 4) + 1))
    bias = torch.randn(experts, device="cuda") * 0.1 if "bias" in router else None
    logits = [torch.randn(tokens, experts, device="cuda") * 2 for _ in range(sets)]
    ids = [torch.full((tokens, 8), -7, device="cuda", dtype=torch.int32) for _ in range(sets)]
    weights = [torch.full((tokens, 8), float("nan"), device="cuda") for _ in range(sets)]
    args = [RouterArgs(ids[s].data_ptr(), weights[s].data_ptr(), logits[s].data_ptr(), experts,
                       None if bias is None else bias.data_ptr(), None, None, (ctypes.c_void_p * 8)(), tokens, 1.0)
            for s in range(sets)]
    pairs = tokens * 8
    order, restore = (torch.empty(pairs, device="cuda", dtype=torch.int32) for _ in range(2))
    starts, listed = (torch.empty(experts + 1, device="cuda", dtype=torch.int32) for _ in range(2))
    stats = torch.empty(2, device="cuda", dtype=torch.int32)
    after = [IndicesArgs(i.data_ptr(), order.data_ptr(), starts.data_ptr(), restore.data_ptr(), listed.data_ptr(),
                         stats.data_ptr(), None, None, pairs) for i in ids]
    workspace = moegen.workspace(group, after[0])
    for a in after:
        a.workspace = workspace.data_ptr()

    def chain(s):
        moegen.run(route, args[s])
        moegen.run(group, after[s])

    chain(0)
    check(logits[0], bias, router, ids[0], weights[0])
    assert torch.equal(order.long(), torch.argsort(ids[0].flatten(), stable=True)), "create_indices read other ids"
    return {"rule": name, "tokens": tokens, "router_us": time_us(lambda s: moegen.run(route, args[s]), sets),
            "with_indices_us": time_us(chain, sets),
            "torch_us": time_us(lambda s: torch_rule(logits[s], bias, router), sets)}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("library")
    parser.add_argument("--json")
    options = parser.parse_args()
    moegen = Moegen(options.library)
    rows = []
    for name in RULES:
        for tokens in (1, 16, 128, 1024, 4096, 16384, 65536):
            rows.append(row(moegen, name, tokens))
            r = rows[-1]
            print(f"{r['rule']:<12} {r['tokens']:>6} router {r['router_us']:8.2f}  + indices {r['with_indices_us']:8.2f}"
                  f"  torch {r['torch_us']:8.2f}  x{r['torch_us'] / r['router_us']:.1f}", flush=True)
    if options.json:
        with open(options.json, "w") as file:
            json.dump(rows, file, indent=1)


if __name__ == "__main__":
    main()
