/*
 * lanex/lanex.h - the whole of lanex. Start reading at executor.h.
 */
#ifndef LANEX_LANEX_H
#define LANEX_LANEX_H

#include <lanex/actor.h>
#include <lanex/base.h>
#include <lanex/cancel.h>
#include <lanex/completion.h>
#include <lanex/epoch.h>
#include <lanex/executor.h>
#include <lanex/inspect.h>
#include <lanex/job.h>
#include <lanex/registry.h>
#include <lanex/root_key.h>
#include <lanex/single_flight.h>

#endif
