import { describe, expect, it } from "vitest";
import { findFault } from "@muster/faults";
import { readArguments } from "./arguments.ts";

describe("readArguments", () => {
  it("defaults to 200 sessions, 100 jobs, a random seed, and one fault for five of them", () => {
    expect(readArguments([], 77)).toMatchObject({
      seed: 77,
      runs: 1,
      sessions: 200,
      jobs: 100,
      faults: 60,
      apiServer: "embedded",
    });
    expect(readArguments(["--sessions", "20"], 77)).toMatchObject({ sessions: 20, jobs: 10, faults: 8 });
  });

  it("reads all options", () => {
    const args = [
      "--seed=3",
      "--runs=20",
      "--jobs=7",
      "--faults=0",
      "--api-server=real",
      "-o",
      "json",
      "--plan",
      "--keep",
    ];
    expect(readArguments(args, 77)).toEqual({
      help: false,
      plan: true,
      keep: true,
      output: "json",
      seed: 3,
      runs: 20,
      sessions: 200,
      jobs: 7,
      faults: 0,
      apiServer: "real",
    });
  });

  it.each<[string, string[], string[]]>([
    ["values that are not numbers", ["--seed=x", "--sessions=0"], ['--seed is "x"', '--sessions is "0"']],
    ["unknown words", ["-o", "xml", "--api-server=k3s"], ['-o is "xml"', '--api-server is "k3s"']],
    ["an unknown option", ["--sead=1"], ["--sead"]],
  ])("refuses %s and names every problem", (_title, args, problems) => {
    let fault;
    try {
      readArguments(args, 1);
    } catch (error) {
      fault = findFault(error);
    }
    if (fault?.code !== "invalid_request") throw new Error("the arguments were accepted");
    for (const problem of problems) expect(fault.reason).toContain(problem);
  });
});
