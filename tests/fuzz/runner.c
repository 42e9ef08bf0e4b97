/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Runs a fuzzer without libFuzzer, as a regression test: fuzz_NAME [--mutate COUNT SEED] FILE|DIRECTORY... First every file as
 * it is, in the order of the names; then COUNT mutations of them, the same ones for the same SEED and files. Every input lies
 * in its own heap block of exact length, so that ASan sees a read past its end. When an input crashes the fuzzer, it is
 * written to crash-input in the working directory. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "fuzz.h"

enum { INPUTS_MAX = 4096, INPUT_MAX = 65536, STEPS_MAX = 6 };

struct input {
	uint8_t *bytes;
	size_t len;
};

static struct input inputs[INPUTS_MAX];
static size_t input_count;
static uint64_t random_state;
static uint8_t running[INPUT_MAX];
static size_t running_len;

/* SplitMix64 */
static uint64_t random_next(void)
{
	uint64_t z = random_state += 0x9e3779b97f4a7c15;

	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9;
	z = (z ^ z >> 27) * 0x94d049bb133111eb;
	return z ^ z >> 31;
}

static size_t random_below(size_t n)
{
	return n ? random_next() % n : 0;
}

static void keep_crash(int signal_number)
{
	int fd = open("crash-input", O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);

	if (fd >= 0 && write(fd, running, running_len) == (ssize_t)running_len)
		(void)!write(STDERR_FILENO, "input kept in crash-input\n", 26);
	signal(signal_number, SIG_DFL);
	raise(signal_number);
}

static void run(const uint8_t *bytes, size_t len)
{
	uint8_t *exact = malloc(len ? len : 1);

	if (!exact)
		abort();
	memcpy(exact, bytes, len);
	memcpy(running, bytes, len);
	running_len = len;
	LLVMFuzzerTestOneInput(exact, len);
	free(exact);
}

static void load_file(const char *path)
{
	FILE *f = fopen(path, "rb");
	uint8_t *bytes = malloc(INPUT_MAX);

	if (!f || !bytes || input_count == INPUTS_MAX) {
		fprintf(stderr, "%s: cannot load: %s\n", path, f ? "too many inputs" : strerror(errno));
		exit(2);
	}
	inputs[input_count].len = fread(bytes, 1, INPUT_MAX, f);
	inputs[input_count++].bytes = bytes;
	fclose(f);
}

static int is_visible(const struct dirent *e)
{
	return e->d_name[0] != '.';
}

static void load(const char *path)
{
	struct dirent **entries;
	struct stat st;
	int count;

	if (stat(path, &st) < 0 || !S_ISDIR(st.st_mode)) {
		load_file(path);
		return;
	}
	count = scandir(path, &entries, is_visible, alphasort);
	if (count < 0) {
		fprintf(stderr, "%s: %s\n", path, strerror(errno));
		exit(2);
	}
	for (int i = 0; i < count; i++) {
		char file[4096];

		snprintf(file, sizeof(file), "%s/%s", path, entries[i]->d_name);
		load_file(file);
		free(entries[i]);
	}
	free(entries);
}

/* Makes `gap` bytes of room at `at`, or does nothing when the input would grow too long. */
static size_t open_gap(uint8_t *bytes, size_t len, size_t at, size_t gap)
{
	if (len + gap > INPUT_MAX)
		return len;
	memmove(bytes + at + gap, bytes + at, len - at);
	return len + gap;
}

static size_t mutate_once(uint8_t *bytes, size_t len)
{
	static const uint8_t edges[] = {0, 1, 63, 64, 127, 128, 0xc0, 0xff};
	size_t at = random_below(len), n;
	const struct input *other;

	switch (random_below(len ? 9 : 1)) {
	case 0: /* insert a few bytes */
		n = 1 + random_below(8);
		if (len + n > INPUT_MAX)
			return len;
		len = open_gap(bytes, len, at, n);
		for (size_t i = 0; i < n; i++)
			bytes[at + i] = (uint8_t)random_next();
		return len;
	case 1: /* flip a bit */
		bytes[at] ^= (uint8_t)(1u << random_below(8));
		return len;
	case 2:
		bytes[at] = (uint8_t)random_next();
		return len;
	case 3:
		bytes[at] = edges[random_below(sizeof(edges))];
		return len;
	case 4: /* a little more or less */
		bytes[at] = (uint8_t)(bytes[at] + random_below(9) - 4);
		return len;
	case 5: /* take bytes out */
		n = 1 + random_below(len - at < 16 ? len - at : 16);
		memmove(bytes + at, bytes + at + n, len - at - n);
		return len - n;
	case 6: /* cut off the end */
		return at;
	case 7: /* a compression pointer */
		if (len - at >= 2) {
			bytes[at] = 0xc0;
			bytes[at + 1] = (uint8_t)random_below(len < 256 ? len : 256);
		}
		return len;
	default: /* overwrite with a piece of any input */
		other = &inputs[random_below(input_count)];
		n = random_below(len - at < other->len ? len - at : other->len);
		memcpy(bytes + at, other->bytes + random_below(other->len - n), n);
		return len;
	}
}

static void run_mutations(unsigned long count)
{
	static uint8_t bytes[INPUT_MAX];

	for (unsigned long i = 0; i < count; i++) {
		const struct input *base = &inputs[i % input_count];
		size_t len = base->len, steps = 1 + random_below(STEPS_MAX);

		memcpy(bytes, base->bytes, len);
		while (steps-- > 0)
			len = mutate_once(bytes, len);
		run(bytes, len);
	}
}

int main(int argc, char **argv)
{
	unsigned long mutations = 0;

	for (int i = 1; i < argc; i++) {
		if (strcmp(argv[i], "--mutate") == 0 && i + 2 < argc) {
			mutations = strtoul(argv[i + 1], NULL, 10);
			random_state = strtoull(argv[i + 2], NULL, 10);
			i += 2;
		} else {
			load(argv[i]);
		}
	}
	if (input_count == 0) {
		fprintf(stderr, "usage: %s [--mutate COUNT SEED] FILE|DIRECTORY...\n", argv[0]);
		return 2;
	}
	signal(SIGABRT, keep_crash);
	for (size_t i = 0; i < input_count; i++)
		run(inputs[i].bytes, inputs[i].len);
	run_mutations(mutations);
	printf("%zu inputs, %lu mutations\n", input_count, mutations);
	for (size_t i = 0; i < input_count; i++)
		free(inputs[i].bytes);
	return 0;
}
