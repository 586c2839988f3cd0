import { describeFault, findFault, parseDuration } from "@muster/faults";
import { readLabelSelector } from "@muster/names";
import { InvalidArgumentError } from "commander";

/** Parses a positive duration into milliseconds. */
export function parseDurationArgument(text: string): number {
  const ms = parseDuration(text);
  if (ms === undefined || ms === 0) throw new InvalidArgumentError("A duration with its unit is needed, such as 10m.");
  return ms;
}

/** Returns a parser of whole numbers in this range. */
export function makeNumberParser(min: number, max = Infinity): (text: string) => number {
  return (text) => {
    const number = /^\d{1,9}$/.test(text) ? Number(text) : NaN;
    if (number >= min && number <= max) return number;
    throw new InvalidArgumentError(`A whole number from ${min} ${max === Infinity ? "on" : `to ${max}`} is needed.`);
  };
}

/** Checks a label selector, which the services read in the same way. */
export function parseSelectorArgument(text: string): string {
  try {
    readLabelSelector("selector", text);
  } catch (error) {
    const fault = findFault(error);
    if (fault === undefined) throw error;
    throw new InvalidArgumentError(fault.code === "invalid_request" ? fault.reason : describeFault(fault));
  }
  return text;
}
