import { afterEach, beforeEach, expect, it, vi } from "vitest";
import { DEFAULTS } from "../../test/manifests.ts";
import { JOB_KIND } from "../domain/kind-job.ts";
import { gatherEvents } from "./gather-events.ts";
import { readJob, type JobRow } from "./read-job.ts";

function job(uid: string): JobRow {
  return readJob({ metadata: { name: "train", namespace: "default", uid } }, JOB_KIND, DEFAULTS);
}

function opened() {
  const reports: string[] = [];
  const gathering = gatherEvents(({ metadata }, type, reason, message) => {
    reports.push(`${metadata.uid} ${type} ${reason} ${message}`);
  });
  return { reports, gathering };
}

beforeEach(() => {
  vi.useFakeTimers();
});
afterEach(() => {
  vi.useRealTimers();
});

it("combines events of one job and reason within a second into one", () => {
  const { reports, gathering } = opened();
  for (const name of ["a", "b"]) gathering.record(job("1"), "Normal", "Created", `Created pod: ${name}`);
  gathering.record(job("1"), "Normal", "Deleted", "Deleted pod: c");
  gathering.record(job("2"), "Normal", "Created", "Created pod: d");
  expect(reports).toEqual([]);
  vi.advanceTimersByTime(1000);
  expect(reports).toEqual([
    "1 Normal Created Created pod: a, b",
    "1 Normal Deleted Deleted pod: c",
    "2 Normal Created Created pod: d",
  ]);
});

it("starts a new event after each write", () => {
  const { reports, gathering } = opened();
  gathering.record(job("1"), "Normal", "Created", "Created pod: a");
  vi.advanceTimersByTime(1000);
  gathering.record(job("1"), "Normal", "Created", "Created pod: b");
  vi.advanceTimersByTime(1000);
  expect(reports).toHaveLength(2);
});

it("reports a warning immediately", () => {
  const { reports, gathering } = opened();
  gathering.record(job("1"), "Warning", "FailedCreatePod", "no room");
  expect(reports).toEqual(["1 Warning FailedCreatePod no room"]);
});

it("names twenty pods and counts the others", () => {
  const { reports, gathering } = opened();
  for (let index = 0; index < 23; index += 1) gathering.record(job("1"), "Normal", "Created", `Created pod: p${index}`);
  gathering[Symbol.dispose]();
  expect(reports[0]).toMatch(/: p0, .*, p19 and 3 more$/);
});

it("reports pending events at its end, and leaves no timer behind", () => {
  const { reports, gathering } = opened();
  gathering.record(job("1"), "Normal", "Created", "Created pod: a");
  gathering[Symbol.dispose]();
  expect(reports).toHaveLength(1);
  gathering.record(job("1"), "Normal", "Created", "Created pod: b");
  expect(reports).toHaveLength(2);
  expect(vi.getTimerCount()).toBe(0);
});
