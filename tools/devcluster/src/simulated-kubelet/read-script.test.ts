import { describe, expect, it } from "vitest";
import { readScript } from "./read-script.ts";

describe("readScript", () => {
  it("by default runs without an end, and ends immediately on SIGTERM", () => {
    expect(readScript(["simulate"])).toEqual({
      read: true,
      script: {
        imageMissing: false,
        startMs: 0,
        readyMs: 0,
        runMs: undefined,
        exitCode: 0,
        print: [],
        printAtEnd: [],
        termMs: 0,
        termExitCode: 143,
        terminationMessage: undefined,
      },
    });
  });

  it("reads times, exit codes and lines with any content", () => {
    const flags = [
      "--start-ms=20",
      "--ready-ms=50",
      "--run-ms=500",
      "--exit=3",
      '--print={"a":"=b"}',
      "--print=",
      "--ignore-term",
    ];
    expect(readScript(["simulate", ...flags])).toMatchObject({
      script: { startMs: 20, readyMs: 50, runMs: 500, exitCode: 3, print: ['{"a":"=b"}', ""], termMs: undefined },
    });
  });

  it.each<[string, string[], string]>([
    ["a real program", ["node", "server.js"], 'runs "simulate" alone, and not "node"'],
    ["nothing", [], 'and not ""'],
    ["an unknown flag", ["simulate", "--runs-ms=1"], 'does not know "--runs-ms=1"'],
    ["an argument that is no flag", ["simulate", "now"], 'does not know "now"'],
    ["a time that is no number", ["simulate", "--run-ms=1s"], '--run-ms needs a whole number and not "1s"'],
    ["an exit code that no process has", ["simulate", "--exit=256"], "at most 255"],
  ])("refuses %s", (_title, command, message) => {
    expect(readScript(command)).toMatchObject({ read: false, message: expect.stringContaining(message) as string });
  });
});
