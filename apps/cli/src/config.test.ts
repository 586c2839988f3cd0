import { readDocumentedVariables, makeRecordingEnv } from "@muster/testkit";
import { expect, it } from "vitest";
import { readConfig } from "./config.ts";

const DEFAULTS = { localFiles: ["/local"], keyFile: "/key", contextFile: "/home/ada/.config/muster/config.yaml" };

it("treats empty variables as missing", () => {
  const env = {
    MUSTER_NATS_URL: "",
    MUSTER_NATS_TOKEN: "",
    MUSTER_LOCAL_FILE: "",
    MUSTER_KEY: "",
    MUSTER_KEY_FILE: "",
    NO_COLOR: "",
  };
  expect(readConfig(env, DEFAULTS)).toEqual({
    natsUrl: undefined,
    natsVariables: {},
    localFiles: ["/local"],
    key: undefined,
    keyFile: "/key",
    gateway: { isPlainHttpAllowed: false },
    contextFile: "/home/ada/.config/muster/config.yaml",
    colours: true,
    columns: undefined,
  });
});

it.each([
  [{ NO_COLOR: "1" }, false],
  [{ TERM: "dumb" }, false],
  [{ TERM: "xterm" }, true],
])("decides whether %o has colours", (env, colours) => {
  expect(readConfig(env, DEFAULTS).colours).toBe(colours);
});

it.each([
  ["60", 60],
  ["0", undefined],
  ["wide", undefined],
])("takes COLUMNS=%s for %s columns", (COLUMNS, columns) => {
  expect(readConfig({ COLUMNS }, DEFAULTS).columns).toBe(columns);
});

it("reads exactly the documented variables", () => {
  const { env, names } = makeRecordingEnv();
  readConfig(env, DEFAULTS);
  expect(names).toEqual(new Set(readDocumentedVariables("muster").keys()));
});
