/* SPDX-License-Identifier: GPL-3.0-or-later */
/* One error range for the whole project. Functions return 0 or a positive value for success and a negative
 * error: either -errno or one of these. nw_strerror() names both. A function either logs or returns an error;
 * only daemon/ and cli/ print. */
#pragma once

enum nw_error {
	NW_EMALFORMED = -2000, /* bytes that do not parse */
	NW_ETOOLONG,           /* a name, line, file or message past its limit */
	NW_EFULL,              /* a bounded table, ring or set has no room */
	NW_ESTALE,             /* the generation asked about is gone */
	NW_EREFUSED,           /* asked for something the configuration does not allow */
	NW_EHELD,              /* an update is held back (shrink-limit, not understood) */
	NW_ENOTYET,            /* a feature this version does not carry */
	NW_ECONFIG,            /* a configuration error; the report says where */
};

const char *nw_strerror(int r);
