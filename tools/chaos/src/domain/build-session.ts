import type { PodShape, SessionShape } from "./plan-session-shapes.ts";

/** The submitted component of one pod. */
export type ComponentDraft = {
  readonly name: string;
  readonly kind: PodShape["kind"];
  readonly pool: string;
  readonly image: string;
  readonly command: readonly string[];
  /** 0 where the pod is ready when it runs. */
  readonly readyPort: number;
};

export type SessionDraft = {
  readonly components: readonly ComponentDraft[];
  readonly timeoutMs: number;
  readonly queueTimeoutMs: number;
  readonly killAfterMs: number;
  readonly priority: number;
};

const KILL_AFTER_MS = 1000;
const READY_PORT = 10_000;

/** Builds the spec of a session: pods for simulated nodes, which act on their command. */
export function buildSession(shape: SessionShape): SessionDraft {
  const { timeoutMs, queueTimeoutMs, priority } = shape;
  return {
    components: shape.pods.map((pod) => buildComponent(shape, pod)),
    timeoutMs,
    queueTimeoutMs,
    killAfterMs: KILL_AFTER_MS,
    priority,
  };
}

function buildComponent(shape: SessionShape, pod: PodShape): ComponentDraft {
  const { name, kind, pool, startMs, readyMs, ends, termMs, imageMissing } = pod;
  return {
    name,
    kind,
    pool,
    image: "chaos",
    command: [
      "simulate",
      `--start-ms=${startMs}`,
      ...(readyMs === undefined ? [] : [`--ready-ms=${readyMs}`]),
      ...(ends === undefined ? [] : [`--run-ms=${ends.afterMs}`, `--exit=${ends.code}`]),
      ...(termMs === undefined ? ["--ignore-term"] : [`--term-ms=${termMs}`]),
      ...(imageMissing ? ["--image-missing"] : []),
      ...(kind === "driver" ? [`--print-at-end=${JSON.stringify({ session: shape.name })}`] : []),
    ],
    readyPort: readyMs === undefined ? 0 : READY_PORT,
  };
}
