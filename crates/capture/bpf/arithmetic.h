/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Whole numbers as `packetlog::integer` has them: hashes, ranges, squares and their quotients. */
#pragma once

#include "cut.h"

#define LOG_BITS 16
#define POWER_BITS 31
#define KEY_BITS 16

/* Both halves of a product of 128 bits, which the machine of these programs does not have. */
static __always_inline __u64 fold(__u64 a, __u64 b)
{
	__u64 a_low = (__u32)a, a_high = a >> 32, b_low = (__u32)b, b_high = b >> 32;
	__u64 low = a_low * b_low;
	__u64 middle = a_high * b_low + (low >> 32);
	__u64 other = a_low * b_high + (__u32)middle;
	__u64 high = a_high * b_high + (middle >> 32) + (other >> 32);

	return (other << 32 | (__u32)low) ^ high;
}

/* packet::HashSeed::hash_words */
static __always_inline __u64 hash_words(const struct control *control, __u64 a, __u64 b)
{
	__u64 first = control->seed[0], second = control->seed[1];

	return fold(fold(a ^ first, b ^ second) ^ second, 0x9e3779b97f4a7c15);
}

/* The next layer's hash. */
static __always_inline __u64 mixed(__u64 hash)
{
	return (hash << 29 | hash >> 35) * 0x9e3779b97f4a7c15;
}

/* Bits of a number up to its highest one. */
static __always_inline __u32 bit_length(__u64 number)
{
	__u32 bits = 0;

	if (number >> 32) {
		bits += 32;
		number >>= 32;
	}
	if (number >> 16) {
		bits += 16;
		number >>= 16;
	}
	if (number >> 8) {
		bits += 8;
		number >>= 8;
	}
	if (number >> 4) {
		bits += 4;
		number >>= 4;
	}
	if (number >> 2) {
		bits += 2;
		number >>= 2;
	}
	if (number >> 1) {
		bits += 1;
		number >>= 1;
	}
	return bits + (__u32)number;
}

static __always_inline __u32 less(__u32 a, __u32 b)
{
	return a > b ? a - b : 0;
}

/* The highest bits of a number, rounded, and how many are below them. */
static __always_inline __u32 rounded(__u32 mantissa_bits, __u64 number, __u32 *shift)
{
	__u64 half;

	*shift = 0;
	if (!(number >> (mantissa_bits & 31)))
		return number;
	*shift = less(bit_length(number), mantissa_bits) & 63;
	half = 1ULL << ((*shift - 1) & 63);
	/* Saturates, as 64 bits do not hold the sum. */
	number = number + half < number ? ~0ULL : number + half;
	return number >> *shift;
}

static __always_inline __u64 square(__u32 mantissa_bits, __u32 number)
{
	__u32 shift;
	__u64 top = rounded(mantissa_bits, number, &shift);
	__u64 whole = top << shift;

	/* A number was rounded up to 2^32. */
	return whole >> 32 ? ~0ULL : whole * whole;
}

static __always_inline __u32 logarithm(const struct model *model, __u64 number)
{
	__u32 shift, top = rounded(model->mantissa_bits, number, &shift);

	if (top >= MANTISSAS_MAX)
		return 0;
	return model->logarithms[top] + (shift << LOG_BITS);
}

/* The square of a number divided by another one. */
static __always_inline __u64 square_over(const struct model *model, __u64 number, __u64 divisor)
{
	__u32 bits, below, whole, at;
	__u64 power;

	if (!number || !divisor)
		return 0;
	bits = less(2 * logarithm(model, number), logarithm(model, divisor));
	below = (LOG_BITS - model->mantissa_bits) & 15;
	bits += 1U << below >> 1;
	whole = bits >> LOG_BITS;
	at = (bits & ((1 << LOG_BITS) - 1)) >> below;
	if (at >= MANTISSAS_MAX)
		return 0;
	power = model->powers[at];
	if (whole < POWER_BITS)
		return power >> (POWER_BITS - whole);
	if (whole - POWER_BITS <= 32)
		return power << (whole - POWER_BITS);
	return ~0ULL;
}
