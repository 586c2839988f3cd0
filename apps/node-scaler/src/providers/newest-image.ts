import { compareNames } from "../domain/fit.ts";

/** An image as a provider lists it; one without a time counts as the oldest. */
export type DatedImage = { readonly id: string; readonly createdAtMs?: number | undefined };

/** Returns the newest image; ties go to the last id, so that every call returns the same. Undefined without an image. */
export function findNewestImage(images: readonly DatedImage[]): string | undefined {
  const timeOf = ({ createdAtMs }: DatedImage): number => createdAtMs ?? Number.MIN_SAFE_INTEGER;
  return images.toSorted((one, other) => timeOf(one) - timeOf(other) || compareNames(one.id, other.id)).at(-1)?.id;
}
