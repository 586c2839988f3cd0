import type { TerminalIo } from "../cli.ts";
import { buildProgressBlock, buildProgressLines, buildScalingLine, buildWaitLine } from "../domain/build-progress.ts";
import type { FollowedItem } from "../domain/build-progress.ts";
import type { DemandScaling } from "../adapters/node-messages.ts";
import { getWorkPhase, type Work } from "../domain/work.ts";

/** Shows the progress of work: a block that is redrawn on a terminal, appended lines everywhere else. */
export type ProgressView = Disposable & {
  update(work: Work): void;
  /** Shows the node scaler's work for it while it waits. */
  scaling(work: Work, scaling: DemandScaling): void;
  /** Prints permanent lines above the block. */
  print(lines: readonly string[]): void;
};

/** The block is redrawn at this interval, because elapsed times change without an event. */
const REDRAW_EVERY_MS = 500;
/** A shorter wait gets no line. */
const WAIT_SHOWN_AFTER_MS = 2000;
/** Moves the cursor up by this many lines, and clears everything below. */
const clearBlock = (lines: number): string => (lines === 0 ? "" : `\u001b[${lines}A\u001b[J`);

export function makeProgressView(io: TerminalIo, now: () => number): ProgressView {
  return io.errStyle().interactive ? drawnView(io, now) : appendedView(io, now);
}

type Shown = {
  readonly work: Work;
  readonly waitsSinceMs: number;
  isWaitShown: boolean;
  /** The time of the newest line. */
  readonly linesMs: number;
  /** The last line about nodes, without times. */
  readonly lastScaling: string;
};

function appendedView(io: TerminalIo, now: () => number): ProgressView {
  const shown = new Map<string, Shown>();
  const showWaits = (): void => {
    const nowMs = now();
    for (const entry of shown.values()) {
      const { work, waitsSinceMs, isWaitShown } = entry;
      if (isWaitShown || work.waitingBecause === "" || nowMs - waitsSinceMs < WAIT_SHOWN_AFTER_MS) continue;
      entry.isWaitShown = true;
      io.err([buildWaitLine(work, nowMs)]);
    }
  };
  const timer = setInterval(showWaits, REDRAW_EVERY_MS);
  return {
    update: (work) => {
      const before = shown.get(keyOf(work));
      const nowMs = now();
      const sinceMs = before?.linesMs ?? 0;
      const lines = buildProgressLines(before?.work, work, nowMs, sinceMs);
      io.err(lines);
      const linesMs = lines.length === 0 ? sinceMs : Math.max(sinceMs, nowMs, ...work.events.map(({ atMs }) => atMs));
      const same = before?.work.waitingBecause === work.waitingBecause;
      const lastScaling = before?.lastScaling ?? "";
      const next = { work, waitsSinceMs: nowMs, isWaitShown: false, lastScaling, linesMs };
      shown.set(keyOf(work), same ? { ...before, work, linesMs } : next);
    },
    scaling: (work, scaling) => {
      const before = shown.get(keyOf(work));
      const news = newsOf(scaling);
      if (before === undefined || before.lastScaling === news || isPhaseDifferent(before.work, work)) return;
      shown.set(keyOf(work), { ...before, lastScaling: news });
      io.err([buildScalingLine(work, scaling, now())]);
    },
    print: (lines) => io.err(lines),
    [Symbol.dispose]: () => {
      clearInterval(timer);
    },
  };
}

function drawnView(io: TerminalIo, now: () => number): ProgressView {
  const all = new Map<string, FollowedItem>();
  let drawn = 0;
  const draw = (above: readonly string[] = []): void => {
    const style = io.errStyle();
    const block = buildProgressBlock([...all.values()], now(), { ...style, rows: style.rows - 1 });
    io.draw(clearBlock(drawn) + [...above, ...block].map((line) => `${line}\n`).join(""));
    drawn = block.length;
  };
  const timer = setInterval(() => {
    draw();
  }, REDRAW_EVERY_MS);
  return {
    update: (work) => {
      const before = all.get(keyOf(work));
      const isOld = before === undefined || isPhaseDifferent(before, work);
      all.set(keyOf(work), { ...work, scaling: isOld ? undefined : before.scaling });
      draw();
    },
    scaling: (work, scaling) => {
      const before = all.get(keyOf(work));
      if (before !== undefined && !isPhaseDifferent(before, work)) all.set(keyOf(work), { ...before, scaling });
    },
    print: draw,
    [Symbol.dispose]: () => {
      clearInterval(timer);
      draw();
    },
  };
}

function keyOf({ kind, name }: Work): string {
  return `${kind}/${name}`;
}

/** A line about nodes belongs to one phase, because work waits for no nodes after the grant. */
function isPhaseDifferent(one: Work, other: Work): boolean {
  return getWorkPhase(one) !== getWorkPhase(other);
}

/** Returns the parts whose change needs another line. Times are excluded, because they always change. */
function newsOf(scaling: DemandScaling): string {
  if (scaling.state !== "known") return scaling.state;
  const booting = scaling.booting.map(({ instanceType, spot, count }) => `${count} ${instanceType} ${spot}`);
  const troubles = scaling.troubles.map(({ code, instanceType, spot }) => `${code} ${instanceType} ${spot}`);
  return [scaling.code, ...booting, ...troubles].join(", ");
}
