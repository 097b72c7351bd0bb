# SPDX-License-Identifier: Apache-2.0
"""The C interface from Python's ctypes. Usage: test_c_api.py LIBMOEGEN LIBCUDA LIBNVRTC FOLDER"""

import ctypes as c
import sys

CONFIG = (b'{"moegen": 1, "name": "unit", "hidden": 2048, "intermediate": 768, "num_experts": 128, "top_k": 8,'
          b' "router": {"scoring": "softmax"}}')


class Options(c.Structure):
    _fields_ = [("struct_size", c.c_size_t), ("cache_dir", c.c_char_p), ("packs", c.POINTER(c.c_char_p)),
                ("num_packs", c.c_size_t), ("cache_max_bytes", c.c_uint64), ("template_dir", c.c_char_p),
                ("jit", c.c_int), ("log_level", c.c_int), ("log", c.c_void_p), ("log_user", c.c_void_p)]


class CreateIndicesArgs(c.Structure):
    _fields_ = [(name, c.c_void_p) for name in
                ("topk_ids", "token_expert_order", "expert_start_indices", "restore_token_order", "expert_ids",
                 "expert_usage_stats", "scales_offset", "workspace")] + [("num_pairs", c.c_int64)]


def load(library):
    moegen = c.CDLL(library)
    moegen.moegen_last_error.restype = c.c_char_p
    moegen.moegen_engine_destroy.argtypes = moegen.moegen_kernel_release.argtypes = [c.c_void_p]
    moegen.moegen_engine_get.argtypes = [c.c_void_p, c.c_char_p, c.c_char_p, c.POINTER(c.c_void_p)]
    moegen.moegen_kernel_run.argtypes = [c.c_void_p, c.c_void_p, c.c_size_t, c.c_void_p]
    return moegen


def main(library, libcuda, libnvrtc, folder):
    # The stand-ins are found again by soname when moegen looks for the driver and for NVRTC.
    driver, _compiler = c.CDLL(libcuda), c.CDLL(libnvrtc)
    driver.fake_cuda_set_args_bytes(c.c_size_t(c.sizeof(CreateIndicesArgs)))
    moegen = load(library)
    engine, kernel = c.c_void_p(), c.c_void_p()
    options = Options(struct_size=c.sizeof(Options), cache_dir=folder.encode())
    assert moegen.moegen_engine_create(c.byref(options), c.byref(engine)) == 0, moegen.moegen_last_error()
    assert moegen.moegen_engine_get(engine, CONFIG, b"create_indices", c.byref(kernel)) == 0, moegen.moegen_last_error()
    memory = c.create_string_buffer(32)
    address = c.addressof(memory) + 15 & ~15
    args = CreateIndicesArgs(*[address] * 6, None, address, 64)
    assert moegen.moegen_kernel_run(kernel, c.byref(args), c.sizeof(args), None) == 0, moegen.moegen_last_error()
    args.num_pairs = -1
    assert moegen.moegen_kernel_run(kernel, c.byref(args), c.sizeof(args), None) == 1
    assert b"num_pairs is negative" in moegen.moegen_last_error()
    moegen.moegen_kernel_release(kernel)
    moegen.moegen_engine_destroy(engine)


if __name__ == "__main__":
    main(*sys.argv[1:])
