# cython: boundscheck=False, wraparound=False, cdivision=True
"""The image that counts for each key among many, found in one pass over key numbers.

This module runs compiled or as plain Python; both find the same.
"""

from __future__ import annotations

from typing import Any

import cython

if cython.compiled:
    from cython.cimports.replica_client.protocol.codec.memory import longs

_MIX = cython.declare(cython.ulonglong, 0x9E3779B97F4A7C15)
_DENSE = cython.declare(
    cython.ulonglong, 4
)  # maximum slots for each image where keys are close to each other
_MAX_IMAGES = (1 << 31) - 2


def net_positions(
    keys: Any, weights: Any, count: cython.Py_ssize_t, first: cython.bint
) -> tuple[bytearray, bytearray]:
    """Return the position of the image that counts for each key, and its images' total weight.

    Args:
        keys: ``count`` 64-bit numbers, the same for images of one key: a buffer with an
            ``address``, such as PyArrow's.
        weights: ``count`` 64-bit numbers in such a buffer.
        count: number of images, less than 2 ** 31.
        first: whether the first image of a key counts; False: the last one.

    Returns:
        Two arrays of 64-bit numbers, in the order in which the keys first appear.

    Raises:
        ValueError: there are too many images.
    """
    if count > _MAX_IMAGES:
        raise ValueError(f"{count} images are too many for one pass")
    if not cython.compiled:
        return _plain(keys, weights, count, first)
    positions, sums = bytearray(8 * count), bytearray(8 * count)
    if not count:
        return positions, sums
    key: cython.p_longlong = cython.cast(
        cython.p_longlong, cython.cast(cython.size_t, keys.address)
    )
    weight: cython.p_longlong = cython.cast(
        cython.p_longlong, cython.cast(cython.size_t, weights.address)
    )
    position: cython.p_longlong = longs(positions)
    total: cython.p_longlong = longs(sums)
    i: cython.Py_ssize_t
    low: cython.longlong = key[0]
    high: cython.longlong = key[0]
    for i in range(1, count):
        if key[i] < low:
            low = key[i]
        elif key[i] > high:
            high = key[i]
    width: cython.ulonglong = cython.cast(cython.ulonglong, high) - cython.cast(
        cython.ulonglong, low
    )
    dense: cython.bint = width < _DENSE * cython.cast(cython.ulonglong, count)
    bits: cython.int = 4
    size: cython.ulonglong = width + 1
    if not dense:
        while (1 << bits) < 2 * count:
            bits += 1
        size = cython.cast(cython.ulonglong, 1) << bits
    # A slot has the number of a key, from 1 on; 0 marks a free slot.
    memory = bytearray(4 * size)
    raw: cython.p_uchar = memory
    slots: cython.p_uint = cython.cast(cython.p_uint, raw)
    found: cython.uint = 0
    slot: cython.ulonglong
    one: cython.uint
    for i in range(count):
        slot = cython.cast(cython.ulonglong, key[i])
        if dense:
            slot -= cython.cast(cython.ulonglong, low)
        else:
            slot = (slot * _MIX) >> (64 - bits)
            while slots[slot] and key[position[slots[slot] - 1]] != key[i]:
                slot = (slot + 1) & (size - 1)
        one = slots[slot]
        if not one:
            slots[slot] = found + 1
            position[found] = i
            total[found] = weight[i]
            found += 1
            continue
        total[one - 1] += weight[i]
        if not first:
            position[one - 1] = i
    del positions[8 * found :]
    del sums[8 * found :]
    return positions, sums


def _plain(
    keys: Any, weights: Any, count: cython.Py_ssize_t, first: cython.bint
) -> tuple[bytearray, bytearray]:
    values = memoryview(keys).cast("B").cast("q")[:count]
    added = memoryview(weights).cast("B").cast("q")[:count]
    numbers: dict[int, int] = {}
    found: list[int] = []
    sums: list[int] = []
    for i in range(count):
        at = numbers.setdefault(values[i], len(found))
        if at == len(found):
            found.append(i)
            sums.append(added[i])
            continue
        sums[at] += added[i]
        if not first:
            found[at] = i
    return _packed(found), _packed(sums)


def _packed(numbers: list[int]) -> bytearray:
    memory = bytearray(8 * len(numbers))
    memoryview(memory).cast("q")[:] = memoryview(
        b"".join(one.to_bytes(8, "little", signed=True) for one in numbers)
    ).cast("q")
    return memory
