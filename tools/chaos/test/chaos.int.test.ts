import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { findKubeAssets } from "@muster/testkit";
import { describe, expect, it } from "vitest";
import { describeFinding } from "../src/domain/build-report.ts";
import { runChaos } from "../src/run-chaos.ts";

const SEED = 4;
const SESSIONS = 20;
const JOBS = 15;
const FAULTS = 8;
/** A run takes a minute, or longer on a busy machine. */
const TIMEOUT_MS = 600_000;

const assets = findKubeAssets();

describe.each([
  { apiServer: "embedded", on: "the embedded API server", skip: false },
  { apiServer: "real", on: `a real kube-apiserver${assets.found ? "" : ` (${assets.reason})`}`, skip: !assets.found },
] as const)("a whole stack on $on", ({ apiServer, skip }) => {
  it.skipIf(skip)(
    "ends every session and job with an allowed outcome and leaves nothing, despite faults",
    async () => {
      const directory = await mkdtemp(join(tmpdir(), "muster-chaos-"));
      try {
        const { findings, observed } = await runChaos({
          seed: SEED,
          sessions: SESSIONS,
          jobs: JOBS,
          faults: FAULTS,
          apiServer,
          directory,
          env: process.env,
          signal: new AbortController().signal,
          onProgress: () => undefined,
        });
        expect(findings.map(describeFinding)).toEqual([]);
        expect(observed.sessions.size).toBe(SESSIONS);
        expect(observed.jobs.size).toBe(JOBS);
        // The test is only valid with grants of parts, with quota that is borrowed (team-c owns none), and with faults.
        expect(observed.ledger.some((entry) => entry.kind === "granted" && (entry.parts ?? []).length > 0)).toBe(true);
        expect(observed.ledger.some((entry) => entry.kind === "granted" && entry.queue === "team-c")).toBe(true);
        expect(observed.faults.filter(({ fromMs }) => fromMs !== undefined).length).toBeGreaterThan(FAULTS / 2);
      } finally {
        await rm(directory, { recursive: true, force: true });
      }
    },
    TIMEOUT_MS,
  );
});
