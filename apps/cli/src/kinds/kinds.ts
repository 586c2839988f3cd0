import { JOBS } from "./job.ts";
import type { Kind } from "./kind.ts";
import { SESSION } from "./session.ts";

/** Every kind that the command knows. The first is meant where none is named. */
export type Kinds = readonly [Kind, ...Kind[]];

export const KINDS: Kinds = [SESSION, ...JOBS];
