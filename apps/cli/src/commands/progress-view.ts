import type { Io } from "../cli.ts";
import { buildProgressBlock, buildProgressLines, buildWaitLine } from "../domain/build-progress.ts";
import type { Work } from "../domain/work.ts";

/** Shows how work goes on: a block that is drawn over on a terminal, appended lines everywhere else. */
export type ProgressView = Disposable & {
  update(work: Work): void;
  /** Lines that stay, above the block. */
  say(lines: readonly string[]): void;
};

/** Elapsed times go on while nothing else happens. */
const REDRAW_EVERY_MS = 500;
/** A reason to wait that does not last is no news. */
const WAIT_SAID_AFTER_MS = 2000;
/** Up by so many lines, then everything below is cleared. */
const clearBlock = (lines: number): string => (lines === 0 ? "" : `\u001b[${lines}A\u001b[J`);

export function progressView(io: Io, now: () => number): ProgressView {
  return io.errStyle().interactive ? drawnView(io, now) : appendedView(io, now);
}

function appendedView(io: Io, now: () => number): ProgressView {
  const shown = new Map<string, { readonly work: Work; readonly waitsSinceMs: number; waitSaid: boolean }>();
  const sayWaits = (): void => {
    const nowMs = now();
    for (const entry of shown.values()) {
      const { work, waitsSinceMs, waitSaid } = entry;
      if (waitSaid || work.waitingBecause === "" || nowMs - waitsSinceMs < WAIT_SAID_AFTER_MS) continue;
      entry.waitSaid = true;
      io.err([buildWaitLine(work, nowMs)]);
    }
  };
  const timer = setInterval(sayWaits, REDRAW_EVERY_MS);
  return {
    update: (work) => {
      const before = shown.get(keyOf(work));
      io.err(buildProgressLines(before?.work, work, now()));
      const same = before?.work.waitingBecause === work.waitingBecause;
      shown.set(keyOf(work), same ? { ...before, work } : { work, waitsSinceMs: now(), waitSaid: false });
    },
    say: (lines) => io.err(lines),
    [Symbol.dispose]: () => {
      clearInterval(timer);
    },
  };
}

function drawnView(io: Io, now: () => number): ProgressView {
  const all = new Map<string, Work>();
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
      all.set(keyOf(work), work);
      draw();
    },
    say: draw,
    [Symbol.dispose]: () => {
      clearInterval(timer);
      draw();
    },
  };
}

function keyOf({ kind, name }: Work): string {
  return `${kind}/${name}`;
}
