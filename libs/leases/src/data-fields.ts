import { describeFault, type Fault } from "@muster/faults";
import { checkEnvName, checkLabelValue } from "@muster/names";
import { z } from "zod";
import { isSealed, MAX_SEALED_CHARACTERS, MAX_SECRET_CHARACTERS } from "./secret-fields.ts";

/** Maximum disk size: 1 PiB. */
const MAX_DISK_GIB = 1_048_576;
const MAX_TEXT_CHARACTERS = 4096;
const LEASE_ID = /^\d{1,20}-\d{1,20}$/;

/** A text that passes a check of libs/names. */
function checked(check: (field: string, text: string) => Fault | undefined) {
  return z.string().superRefine((text, context) => {
    const fault = check("", text);
    if (fault === undefined) return;
    const message = fault.code === "invalid_request" ? fault.reason : describeFault(fault);
    context.addIssue({ code: "custom", message });
  });
}

/** Pool names are label values. */
export const poolName = checked(checkLabelValue).min(1);
export const envName = checked(checkEnvName);
export const text = z.string().max(MAX_TEXT_CHARACTERS);
/** A sealed text is longer than its secret. */
export const secretText = z
  .string()
  .superRefine((secret, context) => {
    const max = isSealed(secret) ? MAX_SEALED_CHARACTERS : MAX_SECRET_CHARACTERS;
    if (secret.length > max) context.addIssue({ code: "custom", message: `at most ${max} characters are possible` });
  })
  .meta({ maxLength: MAX_SEALED_CHARACTERS });
/** A whole number of a unit, which problems name. */
export function amount(unit: string, { min, max }: { readonly min: number; readonly max: number }): z.ZodInt {
  return z.int().min(min, `at least ${min} ${unit} is needed`).max(max, `at most ${max} ${unit} is possible`);
}

export const sizeGib = amount("GiB", { min: 1, max: MAX_DISK_GIB }).describe("GiB.");
export const diskType = z.enum(["ssd", "hdd"]);
export const port = z.int().min(1).max(65_535);
export const leaseId = z.string().regex(LEASE_ID, "the id of a lease is needed: <number>-<number>");

/** Name of a user's network; the name of its namespace is derived from it. */
export const networkName = z.string().min(1).max(63);
export const networkOfData = networkName.describe("Network of the same user that the workload joins.").optional();
