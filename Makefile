# SPDX-License-Identifier: Apache-2.0
# The two commands a newcomer needs are `make demo` and `make test`; both install what is missing (see tools/setup).

.DEFAULT_GOAL := help
.PHONY: help demo test setup build format clean

help:  ## show this list
	@sed -n 's/^\([a-z]*\):.*## /make \1\t/p' Makefile | expand -t 16

demo:  ## import a real model's config, build its kernels for sm_90a and run them on the CPU target
	@tools/demo

test:  ## every check that needs no GPU: tests, formatting, clang-tidy, sanitizers, fuzzing, packaging
	@tools/check

setup:  ## install what building and testing need (apt, as root)
	@tools/setup build test

build:  ## Debug build with all tests in build/dev
	@tools/setup build
	@tools/configure dev && cmake --build --preset dev

format:  ## rewrite the sources as .clang-format says
	@tools/format --fix

clean:  ## remove build/
	rm -rf build
