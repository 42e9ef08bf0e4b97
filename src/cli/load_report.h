/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The figures of a run, for people and as JSON. */
#pragma once
#include "cli/load_options.h"

void load_report_text(const struct load_command *c, const struct load_result *r);
int load_report_json(const struct load_command *c, const struct load_result *r); /* 0 or -ENOMEM */
