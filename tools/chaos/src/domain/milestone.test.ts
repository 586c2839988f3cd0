import { expect, it } from "vitest";
import { getJobMilestone, type JobProgress, getMilestone, type Milestone, type Progress } from "./milestone.ts";

const NEW: Progress = { events: ["QUEUE"], anyPodMade: false, concluded: false, finished: false };
const ACCEPTED = ["QUEUE", "ACCEPT", "PROVISION"];

it.each<[Milestone, Progress]>([
  ["queued", NEW],
  ["accepted", { ...NEW, events: ACCEPTED }],
  ["provisioning", { ...NEW, events: ACCEPTED, anyPodMade: true }],
  ["running", { ...NEW, events: [...ACCEPTED, "RUN"], anyPodMade: true }],
  ["cleaning-up", { ...NEW, events: [...ACCEPTED, "RUN"], anyPodMade: true, concluded: true }],
  ["cleaning-up", { ...NEW, concluded: true }],
  ["over", { ...NEW, concluded: true, finished: true }],
])("is %s", (milestone, progress) => {
  expect(getMilestone(progress)).toBe(milestone);
});

const WAITING: JobProgress = { hasMachines: false, anyPodActive: false, isRunning: false, isOver: false };

it.each<[Milestone, JobProgress]>([
  ["queued", WAITING],
  ["accepted", { ...WAITING, hasMachines: true }],
  ["provisioning", { ...WAITING, hasMachines: true, anyPodActive: true }],
  ["running", { ...WAITING, hasMachines: true, anyPodActive: true, isRunning: true }],
  ["over", { ...WAITING, hasMachines: true, isOver: true }],
])("has a job that is %s", (milestone, progress) => {
  expect(getJobMilestone(progress)).toBe(milestone);
});
