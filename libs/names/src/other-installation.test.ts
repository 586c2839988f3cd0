import { expect, it } from "vitest";
import { findOtherInstallation } from "./other-installation.ts";

it.each<[string, string | undefined, string | undefined]>([
  ["one's own", "muster-1", undefined],
  ["what says nothing", undefined, undefined],
  ["what says nothing in so many words", "", undefined],
  ["what another one has made", "muster-2", "muster-2"],
])("recognises %s", (_title, found, other) => {
  expect(findOtherInstallation(found, "muster-1")).toBe(other);
});
