import { expect, it } from "vitest";
import { session, START_MS } from "../../test/session-fixture.ts";
import { makeProgressView } from "./progress-view.ts";

/** Emulates the control sequences that the view sends: text, cursor up, and clear to the end. */
function screen() {
  const lines: string[] = [""];
  return {
    lines: () => lines.filter((line) => line !== ""),
    draw: (text: string) => {
      // eslint-disable-next-line no-control-regex -- control characters are what this is about
      const up = /^\u001b\[(\d+)A\u001b\[J/.exec(text);
      if (up !== null) lines.splice(lines.length - 1 - Number(up[1]), Number(up[1]) + 1, "");
      const parts = text.slice(up?.[0].length ?? 0).split("\n");
      lines.push((lines.pop() ?? "") + (parts[0] ?? ""));
      lines.push(...parts.slice(1));
    },
  };
}

it("overwrites its last block, keeps permanent lines, and leaves the last state", () => {
  const { draw, lines } = screen();
  const unused = () => {
    throw new Error("nothing is appended on a terminal");
  };
  const io = {
    out: unused,
    err: unused,
    write: unused,
    ask: unused,
    read: unused,
    draw,
    outStyle: () => ({ columns: 80, colours: false }),
    errStyle: () => ({ columns: 80, colours: false, rows: 24, interactive: true }),
    closed: new AbortController().signal,
  };
  {
    using view = makeProgressView(io, () => START_MS + 1500);
    view.update(session(["QUEUE"]));
    view.update(session(["QUEUE", "RUN"]));
    view.print(["cancelling echo"]);
    view.update(session(["QUEUE", "DONE"], [], { finishedAtMs: START_MS + 1000 }));
  }
  expect(lines().filter((line) => !line.includes("COMPONENT"))).toEqual([
    "cancelling echo",
    "DONE echo 1.0s",
    "  QUEUE 1.0s  DONE",
  ]);
});
