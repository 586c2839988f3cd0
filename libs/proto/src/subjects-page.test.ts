import { readFileSync } from "node:fs";
import { expect, it } from "vitest";
import { buckets, streams, subjects } from "./subjects.ts";

const page = readFileSync(new URL("../../../docs/reference/nats.md", import.meta.url), "utf8");
/** Values between backticks, with placeholders for keys as in the code. */
const shown = [...page.matchAll(/`([^`]+)`/g)].map(([, text = ""]) => text.replaceAll(/<[^>]+>/g, "x"));

it("docs/reference/nats.md has each stream with its subjects, and each bucket", () => {
  const names = Object.values(streams).flatMap((stream) => [stream.name, ...stream.subjects]);
  expect([...names, ...Object.values(buckets)].filter((name) => !shown.includes(name))).toEqual([]);
});

it("docs/reference/nats.md has each subject that a key completes", () => {
  const spelled = Object.entries(subjects).flatMap(([name, subject]) =>
    // Functions that take another subject, or are NATS' own.
    typeof subject === "string" || ["requestOfReplica", "requestOfAnyReplica", "ping"].includes(name)
      ? []
      : [subject("x", "x", "x")],
  );
  expect(spelled.length).toBeGreaterThan(8);
  const missing = spelled.filter((subject) => !subject.includes("*") && !shown.includes(subject));
  expect(missing).toEqual([]);
});
