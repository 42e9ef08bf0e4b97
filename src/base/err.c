/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Texts for the project's own error range and for errno, in one function. Any thread. */
#include "base/err.h"

#include <stdio.h>
#include <string.h>

static const char *const own_text[] = {
	[NW_EMALFORMED - NW_EMALFORMED] = "malformed",
	[NW_ETOOLONG - NW_EMALFORMED] = "too long",
	[NW_EFULL - NW_EMALFORMED] = "table full",
	[NW_ESTALE - NW_EMALFORMED] = "generation is gone",
	[NW_EREFUSED - NW_EMALFORMED] = "not allowed by the configuration",
	[NW_EHELD - NW_EMALFORMED] = "update held back",
	[NW_ENOTYET - NW_EMALFORMED] = "not in this version",
	[NW_ECONFIG - NW_EMALFORMED] = "configuration error",
};

const char *nw_strerror(int r)
{
	/* strerror_r writes only for unknown numbers; the buffer is per thread so that the text stays whole. */
	static _Thread_local char text[64];

	if (r >= 0)
		return "success";
	if (r >= NW_EMALFORMED && r <= NW_ECONFIG)
		return own_text[r - NW_EMALFORMED];
	if (r < NW_EMALFORMED) {
		snprintf(text, sizeof(text), "unknown error %d", r);
		return text;
	}
	return strerror_r(-r, text, sizeof(text));
}
