/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Whole numbers as `packetlog::integer` has them: hashes, ratios, quotients of squares. */
#pragma once

#include "cut.h"

#define RATIO_BITS 16

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

/* The square of a number divided by another one, by the number's 32 highest bits. */
static __always_inline __u64 square_over(__u64 number, __u64 divisor)
{
	__u32 shift = number >> 32 ? bit_length(number >> 32) : 0;
	__u64 top = number >> (shift & 63);
	__u64 quotient = divisor ? top * top / divisor : 0;

	shift *= 2;
	if (shift && quotient >> ((64 - shift) & 63))
		return ~0ULL;
	return quotient << (shift & 63);
}

/* A number divided by another one, in parts of 2^-16; of one of 2^47 or more in whole numbers. */
static __always_inline __s64 ratio(__u64 number, __u64 divisor)
{
	__u64 quotient;

	if (!divisor)
		return 0;
	if (!(number >> (63 - RATIO_BITS)))
		return (number << RATIO_BITS) / divisor;
	quotient = number / divisor;
	if (quotient >> (63 - RATIO_BITS))
		return 0x7fffffffffffffff;
	return quotient << RATIO_BITS;
}
