import type { DescribeImagesCommandInput, Image } from "@aws-sdk/client-ec2";

/** `id` and `owner` are EC2's own parameters; everything else is a filter of DescribeImages: `name`, `architecture`, `tag:team`. */
export function buildImageFilters(properties: Readonly<Record<string, string>>): DescribeImagesCommandInput {
  const { id, owner, ...filters } = properties;
  return {
    ...(id === undefined ? {} : { ImageIds: [id] }),
    // Anybody may publish an image under any name: without an owner only the account's own are looked at.
    ...(id !== undefined && owner === undefined ? {} : { Owners: [owner ?? "self"] }),
    Filters: [
      { Name: "state", Values: ["available"] },
      ...Object.entries(filters).map(([Name, value]) => ({ Name, Values: [value] })),
    ],
  };
}

/** By time of creation; an image without one is older than all others. */
export function newestImage(images: readonly Image[]): string | undefined {
  const sorted = images.toSorted((one, other) => compareTimes(one, other) || compareIds(one, other));
  return sorted.at(-1)?.ImageId;
}

function compareTimes(one: Image, other: Image): number {
  const [first, second] = [createdAtMs(one), createdAtMs(other)];
  return first === second ? 0 : first - second;
}

function createdAtMs({ CreationDate }: Image): number {
  const time = Date.parse(CreationDate ?? "");
  return Number.isNaN(time) ? -Infinity : time;
}

function compareIds(one: Image, other: Image): number {
  return (one.ImageId ?? "") < (other.ImageId ?? "") ? -1 : 1;
}
