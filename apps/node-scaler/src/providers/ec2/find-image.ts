import type { DescribeImagesCommandInput, Image } from "@aws-sdk/client-ec2";
import type { DatedImage } from "../newest-image.ts";

/** Builds the filters. `id` and `owner` are EC2's own parameters; every other property is a filter of DescribeImages: `name`, `architecture`, `tag:team`. */
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

/** Converts the images that EC2 lists into the form of all providers. An image without a readable date has no date. */
export function readImages(images: readonly Image[]): readonly DatedImage[] {
  return images.flatMap(({ ImageId: id, CreationDate = "" }) => {
    const createdAtMs = Date.parse(CreationDate);
    return id === undefined ? [] : [{ id, createdAtMs: Number.isNaN(createdAtMs) ? undefined : createdAtMs }];
  });
}
