import { JAXJOB_KIND } from "./kind-jaxjob.ts";
import { JOB_KIND } from "./kind-job.ts";
import { MPIJOB_KIND } from "./kind-mpijob.ts";
import { PYTORCHJOB_KIND } from "./kind-pytorchjob.ts";
import { TFJOB_KIND } from "./kind-tfjob.ts";
import type { Kind } from "./kind.ts";

/** All kinds of job that the controller can run. */
export const KINDS: readonly Kind[] = [JOB_KIND, TFJOB_KIND, PYTORCHJOB_KIND, MPIJOB_KIND, JAXJOB_KIND];
