import { describe, expect, it } from "vitest";
import { RESOURCES } from "../kinds/resources.ts";
import { readWorkTarget } from "./find-work.ts";

const CLI = { resources: RESOURCES };

describe("the session or job that a command names", () => {
  it.each([
    ["bench", "session", "bench"],
    ["job/training", "job", "training"],
    ["pytorchjob/training", "pytorchjob", "training"],
  ])("finds %s", (text, noun, name) => {
    const found = readWorkTarget(CLI, text, "logs");
    expect([found.kind.noun, found.name]).toEqual([noun, name]);
  });

  it.each([
    ["rs/web", "logs", "muster describe replica-set/web"],
    ["replica-sets/web", "cancel", "muster delete replica-set/web"],
    ["lease/4-1", "logs", "muster lease get 4-1"],
    ["lease/4-1", "cancel", "muster lease end 4-1"],
  ] as const)("refuses %s for %s, and names the command to use", (text, command, instead) => {
    expect(() => readWorkTarget(CLI, text, command)).toThrow(
      expect.objectContaining({ exitCode: 2, hint: expect.stringContaining(instead) as string }) as Error,
    );
  });
});
