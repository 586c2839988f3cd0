import type { V1Container, V1Pod, V1Probe } from "@kubernetes/client-node";
import type { LogRequest } from "./container-log.ts";
import type { StartExec } from "./serve-exec.ts";

/** Yields the requested log, until the run has ended or the signal aborts. */
export type LogReader = (request: LogRequest, signal: AbortSignal) => AsyncIterable<Buffer>;

/** One run of one container, counted from 0. */
export type RunRequest = {
  readonly pod: V1Pod;
  readonly container: V1Container;
  readonly run: number;
  readonly podIp: string;
  readonly containerId: string;
};

export type WaitingReason = "ContainerCreating" | "CreateContainerConfigError" | "ErrImagePull" | "ImagePullBackOff";

/** The outcome of a start: a run, one that never began, or a reason to retry later. */
export type RunOutcome =
  | { readonly is: "running"; readonly run: ContainerRun }
  | { readonly is: "failed"; readonly message: string }
  | {
      readonly is: "waiting";
      readonly reason: WaitingReason;
      readonly message?: string;
      readonly retryAtMs: number;
    };

export type ContainerRun = {
  readonly startedAtMs: number;
  /** Resolves when all processes of the container have ended and its log is complete. */
  readonly ended: Promise<{ readonly exitCode: number; readonly message: string | undefined }>;
  readonly signal: (signal: "SIGTERM" | "SIGKILL") => void;
  /** The source of readiness: the container itself, or its probes. */
  readonly readiness:
    | { readonly by: "itself"; readonly isReady: boolean; readonly onReady: (listener: () => void) => void }
    | { readonly by: "probe"; readonly ask: (probe: V1Probe, timeoutMs: number) => Promise<boolean> };
  /** Undefined: no process runs in which a command could run. */
  readonly exec: StartExec | undefined;
};

/** Runs the containers of one pod. The decisions of the kubelet do not depend on the runtime. */
export type PodRuntime = {
  readonly start: (request: RunRequest) => Promise<RunOutcome>;
  /** Returns undefined if that run has left no log. */
  readonly findLog: (container: string, run: number) => LogReader | undefined;
  /** Removes all data of the pod; called once none of its containers runs. */
  readonly remove: () => void;
};
