import type { DescribeImagesCommandInput, Image } from "@aws-sdk/client-ec2";
import type { DatedImage } from "../newest-image.ts";

/** Builds the filters. `id` and `owner` are EC2's own parameters; everything else is a filter of DescribeImages: `name`, `architecture`, `tag:team`. */
export function buildImageFilters(properties: Readonly<Record<string, string>>): DescribeImagesCommandInput {
  const { id, owner, ...filters } = properties;
  return {
    ...(id === undefined ? {} : { ImageIds: [id] }),
    // Every account may publish an image under any name, so without an owner only the account's own images count.
    ...(id !== undefined && owner === undefined ? {} : { Owners: [owner ?? "self"] }),
    Filters: [
      { Name: "state", Values: ["available"] },
      ...Object.entries(filters).map(([Name, value]) => ({ Name, Values: [value] })),
    ],
  };
}

/** Converts EC2's images to the common form. An unreadable date counts as missing. */
export function readImages(images: readonly Image[]): readonly DatedImage[] {
  return images.flatMap(({ ImageId: id, CreationDate = "" }) => {
    const createdAtMs = Date.parse(CreationDate);
    return id === undefined ? [] : [{ id, createdAtMs: Number.isNaN(createdAtMs) ? undefined : createdAtMs }];
  });
}
