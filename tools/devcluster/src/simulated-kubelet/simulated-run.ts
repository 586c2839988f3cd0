import type { LogRequest } from "../kubelet/container-log.ts";
import { formatLogLine, type LogLine, parseLogLines, renderLogLine, selectLogLines } from "../kubelet/log-lines.ts";
import type { ContainerRun } from "../kubelet/pod-runtime.ts";
import type { Script } from "./read-script.ts";

const SIGKILL_EXIT_CODE = 137;

/** One run of a simulated container, whose progress depends only on the clock. */
export class SimulatedRun {
  readonly startedAtMs: number;
  readonly #script: Script;
  readonly #ended = Promise.withResolvers<{ exitCode: number; message: string | undefined }>();
  readonly #lines: LogLine[] = [];
  #endsAtMs: number;
  #exitCode: number;
  #endsByItself = true;
  #isReady: boolean;
  #isOver = false;
  #onReady: () => void = () => undefined;
  #changed = Promise.withResolvers<undefined>();

  constructor(script: Script, nowMs: number) {
    this.#script = script;
    this.startedAtMs = nowMs;
    this.#endsAtMs = nowMs + (script.runMs ?? Infinity);
    this.#exitCode = script.exitCode;
    this.#isReady = script.readyMs === 0;
    this.#print(script.print, nowMs);
  }

  /** Becomes ready, or ends, if that is due. */
  tick(nowMs: number): void {
    if (this.#isOver) return;
    if (nowMs >= this.#endsAtMs) {
      if (this.#endsByItself) this.#print(this.#script.printAtEnd, nowMs);
      this.#end(this.#exitCode);
    } else if (!this.#isReady && nowMs >= this.startedAtMs + this.#script.readyMs) {
      this.#isReady = true;
      this.#onReady();
    }
  }

  /** Ends now as if by itself, before the time in its script. */
  finish(exitCode: number, nowMs: number): void {
    if (this.#isOver) return;
    this.#print(this.#script.printAtEnd, nowMs);
    this.#end(exitCode);
  }

  signal(signal: "SIGTERM" | "SIGKILL", nowMs: number): void {
    if (signal === "SIGKILL") {
      this.#end(SIGKILL_EXIT_CODE);
      return;
    }
    const { termMs, termExitCode } = this.#script;
    if (termMs === undefined || nowMs + termMs >= this.#endsAtMs) return;
    this.#endsAtMs = nowMs + termMs;
    this.#exitCode = termExitCode;
    this.#endsByItself = false;
    this.tick(nowMs);
  }

  isOver(): boolean {
    return this.#isOver;
  }

  /** The view of the pod's worker. */
  asContainerRun(now: () => number): ContainerRun {
    return {
      startedAtMs: this.startedAtMs,
      ended: this.#ended.promise,
      signal: (signal) => this.signal(signal, now()),
      exec: undefined,
      readiness: {
        by: "itself",
        isReady: this.#isReady,
        onReady: (listener) => {
          this.#onReady = listener;
        },
      },
    };
  }

  async *readLog(request: LogRequest, signal: AbortSignal): AsyncGenerator<Buffer> {
    let left = request.limitBytes ?? Infinity;
    const render = (lines: readonly LogLine[]): Buffer => {
      const bytes = Buffer.concat(lines.map((line) => renderLogLine(line, false, request.timestamps ?? false)));
      const part = bytes.subarray(0, left);
      left -= part.length;
      return part;
    };
    let seen = this.#lines.length;
    yield render(selectLogLines(this.#lines, request));
    const wake = (): void => this.#changed.resolve(undefined);
    signal.addEventListener("abort", wake);
    try {
      while (request.follow === true && left > 0 && !signal.aborted && !(this.#isOver && seen === this.#lines.length)) {
        if (seen === this.#lines.length) await this.#changed.promise;
        const fresh = this.#lines.slice(seen);
        seen += fresh.length;
        yield render(fresh);
      }
    } finally {
      signal.removeEventListener("abort", wake);
    }
  }

  #print(texts: readonly string[], atMs: number): void {
    const written = texts
      .flatMap((text) => text.split("\n"))
      .map((text) => formatLogLine({ atMs, stream: "stdout", isComplete: true }, Buffer.from(text)));
    this.#lines.push(...parseLogLines(Buffer.concat(written)).lines);
    this.#change();
  }

  #end(exitCode: number): void {
    if (this.#isOver) return;
    this.#isOver = true;
    this.#ended.resolve({ exitCode, message: this.#script.terminationMessage });
    this.#change();
  }

  #change(): void {
    this.#changed.resolve(undefined);
    this.#changed = Promise.withResolvers();
  }
}
