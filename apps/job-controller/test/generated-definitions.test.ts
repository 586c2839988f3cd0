import { readdirSync, readFileSync } from "node:fs";
import { expect, it } from "vitest";
import { parse } from "yaml";
import { buildDefinition } from "../definitions/build-definition.ts";

const sources = new URL("../definitions/", import.meta.url);
const kubernetes = readFileSync(new URL("../../../libs/devcluster/schemas/kubernetes.json", import.meta.url), "utf8");

it.each(readdirSync(sources).filter((name) => name.endsWith(".yaml")))(
  "deploy/crds/%s is what its source says; if not: node apps/job-controller/definitions/generate.ts",
  (name) => {
    const written: unknown = parse(readFileSync(new URL(`../../../deploy/crds/${name}`, import.meta.url), "utf8"));
    expect(parse(buildDefinition(readFileSync(new URL(name, sources), "utf8"), kubernetes))).toEqual(written);
  },
);
