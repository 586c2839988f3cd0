import { parseLabelSelector as parse, type LabelSelector } from "@muster/names";
import type { JsonObject } from "./json.ts";
import { getObject } from "./json.ts";
import { checkLabelKey, checkLabelValue } from "./names.ts";
import { badRequest, fail, type Failure } from "./status.ts";

/** Fails with 400 and Kubernetes' words. */
export function parseLabelSelector(text: string): LabelSelector {
  return parse(text, {
    checkKey: checkLabelKey,
    checkValue: checkLabelValue,
    refuse: (because) => fail(badRequest(`unable to parse requirement: ${because}`)),
  });
}

export function getLabels(object: JsonObject): JsonObject {
  return getObject(object, "metadata", "labels");
}

export type FieldRequirement = { readonly field: string; readonly equal: boolean; readonly value: string };
export type FieldSelector = readonly FieldRequirement[];

/** Reads each selectable field from an object. */
export type SelectableFields = Readonly<Record<string, (object: JsonObject) => string>>;

/** Parses `metadata.name=a,spec.nodeName!=b`, with `\,` `\=` `\\` escaped in values. Fails with 400 for a field that the resource cannot be selected by. */
export function parseFieldSelector(text: string, fields: SelectableFields): FieldSelector {
  return splitUnescaped(text)
    .filter((term) => term !== "")
    .map((term) => {
      const parts = /^([^=!]+)(==|!=|=)(.*)$/s.exec(term);
      const [, field = "", operator = "", value = ""] = parts ?? [];
      if (parts === null) fail(badRequest(`invalid selector: '${term}'; can't understand '${term}'`));
      if (!Object.hasOwn(fields, field)) fail(unknownField(field, Object.keys(fields)));
      return { field, equal: operator !== "!=", value: value.replace(/\\([\\,=])/g, "$1") };
    });
}

/** Kubernetes uses a different message for resources with their own selectable fields. */
function unknownField(field: string, known: readonly string[]): Failure {
  const isPlain = known.every((name) => name === "metadata.name" || name === "metadata.namespace");
  if (!isPlain) return badRequest(`field label not supported: ${field}`);
  return badRequest(`"${field}" is not a known field selector: only "metadata.name", "metadata.namespace"`);
}

export function matchesFields(selector: FieldSelector, object: JsonObject, fields: SelectableFields): boolean {
  return selector.every(({ field, equal, value }) => (fields[field]?.(object) === value) === equal);
}

function splitUnescaped(text: string): string[] {
  return text.match(/(?:\\.|[^,\\])+/gs) ?? [];
}
