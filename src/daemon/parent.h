/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The parent: root, parses no packet. It reads the configuration, opens every socket and list file, starts the enforcer and the server and starts them
 * again when they die, and takes a new configuration through both in two steps, so that a broken one changes nothing. */
#pragma once
#include <stdbool.h>

int parent_main(const char *config_path); /* returns the exit code of the program */
bool control_is_answered(const char *path); /* somebody serves this control socket */
