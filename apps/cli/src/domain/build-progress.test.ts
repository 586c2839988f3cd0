import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { buildPhases, buildProgressBlock, buildProgressLines, buildWaitLine } from "./build-progress.ts";
import { component, session, START_MS as START } from "../../test/session-fixture.ts";
import type { Work } from "./work.ts";

describe("appended lines", () => {
  it("show the events of a new session, and only its started components", () => {
    const fresh = session(
      ["QUEUE", "ACCEPT"],
      [component("server", "NOT_READY"), component("client", "CREATED"), component("driver", "PENDING")],
    );
    expect(buildProgressLines(undefined, fresh, START + 2500)).toEqual([
      "  0.0s  echo  QUEUE",
      "  1.0s  echo  ACCEPT",
      "  2.5s  echo  server  NOT_READY",
    ]);
  });

  it("show only the changes, and none twice", () => {
    const before = session(["QUEUE"], [component("server", "CREATED"), component("driver", "PENDING")]);
    const after = session(
      ["QUEUE", "PROVISION"],
      [component("server", "READY", { node: "n1" }), component("driver", "PENDING")],
    );
    expect(buildProgressLines(before, after, START + 3000)).toEqual([
      "  1.0s  echo  PROVISION",
      "  3.0s  echo  server  READY  on n1",
    ]);
    expect(buildProgressLines(after, after, START + 4000)).toEqual([]);
  });

  it("end with the outcome of the session, after its causes", () => {
    const before = session(["QUEUE", "RUN"], [component("server", "READY")]);
    const failed = component("server", "FAILED", { exitCode: 3, message: "no space\nleft" });
    const end = {
      phase: "ERROR" as const,
      atMs: START + 5000,
      reason: "COMPONENT_FAILED",
      description: "server failed",
    };
    const after = {
      ...session(["QUEUE", "RUN"], [failed], { outcome: "failure" }),
      events: [...before.events, end],
      finishedAtMs: START + 5000,
    };
    expect(buildProgressLines(before, after, START + 5100)).toEqual([
      "  5.1s  echo  server  FAILED  exit code 3  no space left",
      "  5.1s  echo  ERROR  COMPONENT_FAILED  server failed",
    ]);
  });

  it("have times that never decrease, and end with the session after its cleanup", () => {
    const before = session(["QUEUE", "RUN"], [component("driver", "SUCCEEDED", { exitCode: 0 })]);
    const end = { phase: "DONE", atMs: START + 2700, reason: "", description: "the driver ended with exit code 0" };
    const after: Work = { ...before, outcome: "success", events: [...before.events, end] };
    const lines = (finishedAtMs: number) =>
      buildProgressLines(before, { ...after, finishedAtMs }, START + 4100, START + 2800);
    expect(lines(START + 4000)).toEqual(["  4.0s  echo  DONE  the driver ended with exit code 0"]);
    expect(lines(START + 2700)).toEqual(["  2.8s  echo  DONE  the driver ended with exit code 0"]);
  });

  it("omit messages before readiness, and keep the reason of a failed component", () => {
    const before = session(["QUEUE"], [component("server", "NOT_READY", { message: "ContainerCreating" })]);
    const after = session(["QUEUE"], [component("server", "NOT_READY", { message: "ProbeFailing" })]);
    expect(buildProgressLines(before, after, START)).toEqual([]);
    const failed = session(["QUEUE"], [component("server", "FAILED", { message: "ImagePullBackOff" })]);
    expect(buildProgressLines(after, failed, START)).toEqual(["  0.0s  echo  server  FAILED  ImagePullBackOff"]);
  });

  it("state why a session waits", () => {
    const waiting = session(["QUEUE"], [], { waitingBecause: "pool workers has 1 machines free,\n4 are needed" });
    expect(buildWaitLine(waiting, START + 1000)).toBe(
      "  1.0s  echo  waits: pool workers has 1 machines free, 4 are needed",
    );
  });

  it("show every event exactly once, in whatever steps the session is read", () => {
    const phases = ["QUEUE", "ACCEPT", "PROVISION", "RUN", "DONE"] as const;
    fc.assert(
      fc.property(fc.subarray([1, 2, 3, 4]), (stops) => {
        let before: Work | undefined;
        const lines: string[] = [];
        for (const count of [...stops, phases.length]) {
          const next = session(phases.slice(0, count));
          lines.push(...buildProgressLines(before, next, START));
          before = next;
        }
        expect(lines.map((line) => line.split("  ").at(-1))).toEqual(phases);
      }),
    );
  });
});

describe("a redrawn block", () => {
  const style = { columns: 80, rows: 24, colours: false };

  it("shows the phase, the time that each phase took, and a line for each component", () => {
    const running = session(
      ["QUEUE", "RUN"],
      [component("server", "READY", { node: "n1", podIp: "10.0.0.3" }), component("driver", "NOT_READY")],
    );
    expect(buildProgressBlock([running], START + 4200, style)).toEqual([
      "RUN echo 4.2s",
      "  QUEUE 1.0s  RUN 3.2s",
      "  COMPONENT  KIND    POOL     NODE  ADDRESS   STATE      MESSAGE",
      "  server     server  workers  n1    10.0.0.3  READY",
      "  driver     driver  workers  -     -         NOT_READY",
    ]);
  });

  it("shows all pools that a component accepts until one is granted", () => {
    const server = component("server", "PENDING", { pool: "h100", otherPools: ["a100"] });
    expect(buildProgressBlock([session(["QUEUE"], [server])], START, style).slice(2)).toEqual([
      "  COMPONENT  KIND    POOL        NODE  ADDRESS  STATE    MESSAGE",
      "  server     server  h100, a100  -     -        PENDING",
    ]);
  });

  it("shows the part of a machine of each component, if one has a part, and stays within its width", () => {
    const [half, gpu] = [{ cpu: "500m", memory: "1Gi" }, { "nvidia.com/gpu": "1" }];
    const components = [
      { ...component("server", "READY", { node: "n1" }), shared: half },
      { ...component("client", "PENDING"), shared: gpu },
      component("driver", "PENDING"),
    ];
    expect(buildProgressBlock([session(["RUN"], components)], START, { ...style, columns: 100 }).slice(2)).toEqual([
      "  COMPONENT  KIND    POOL     NODE  PART              ADDRESS  STATE    MESSAGE",
      "  server     server  workers  n1    500m cpu, 1Gi     -        READY",
      "  client     server  workers  -     1 nvidia.com/gpu  -        PENDING",
      "  driver     driver  workers  -     whole             -        PENDING",
    ]);
    for (const columns of [20, 40, 60, 80])
      for (const line of buildProgressBlock([session(["RUN"], components)], START, { ...style, columns }))
        expect(line.length).toBeLessThanOrEqual(columns);
  });

  it("never has more lines than the terminal, nor longer ones", () => {
    const many = Array.from({ length: 50 }, (_, index) =>
      component(`server-${index}`, "READY", { message: "x".repeat(300), node: "node.of.a.long.name.example.com" }),
    );
    const waitingBecause = "y".repeat(300);
    const sessions = [session(["QUEUE", "RUN"], many, { waitingBecause }), session(["QUEUE", "DONE"], many)];
    for (const rows of [1, 2, 10, 24]) {
      const block = buildProgressBlock(sessions, START + 5000, { ...style, rows });
      expect(block).toHaveLength(rows);
      for (const line of block) expect(line.length).toBeLessThanOrEqual(80);
      if (rows > 1) expect(block.at(-1)).toMatch(/more lines$/);
    }
  });

  it("omits finished sessions before running ones", () => {
    const over = session(["QUEUE", "DONE"], [component("driver", "SUCCEEDED")], { finishedAtMs: START + 1000 });
    const open = session(["QUEUE", "RUN"], [component("driver", "READY")], { name: "open" });
    const block = buildProgressBlock([over, open], START + 2000, { ...style, rows: 4 });
    expect(block[0]).toBe("RUN open 2.0s");
    expect(block).toHaveLength(4);
  });
});

it("stops the clock of the last phase when the session ends", () => {
  const over = session(["QUEUE", "RUN", "DONE"], [], { finishedAtMs: START + 2000 });
  expect(buildPhases(over, START + 60_000)).toBe("QUEUE 1.0s  RUN 1.0s  DONE");
});
