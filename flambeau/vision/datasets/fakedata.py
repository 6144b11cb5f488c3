"""Pictures of noise, made when they are asked for."""

from flambeau.tensor import get_rng_state, manual_seed, randint, randn, set_rng_state
from flambeau.vision.datasets.vision import VisionDataset


class FakeData(VisionDataset):
    """`size` pictures of noise with random labels; the picture of an index is always the same.

    image_size: (channels, height, width). random_offset: added to the index to give the seed.

    >>> from flambeau.vision import transforms
    >>> picture, label = FakeData(4, (3, 8, 8), transform=transforms.ToTensor())[0]
    >>> tuple(picture.shape), 0 <= label < 10
    ((3, 8, 8), True)
    """

    def __init__(self, size=1000, image_size=(3, 224, 224), num_classes=10, transform=None,
                 target_transform=None, random_offset=0):
        super().__init__(transform=transform, target_transform=target_transform)
        self.size, self.image_size, self.num_classes = size, image_size, num_classes
        self.random_offset = random_offset

    def __getitem__(self, index):
        if index >= len(self):
            raise IndexError(f"{type(self).__name__} index out of range")
        state = get_rng_state()
        manual_seed(index + self.random_offset)
        image = randn(*self.image_size)
        target = randint(0, self.num_classes, size=(1,))[0]
        set_rng_state(state)
        from flambeau.vision.transforms.functional import to_pil_image
        image = to_pil_image(image)
        if self.transform is not None:
            image = self.transform(image)
        if self.target_transform is not None:
            target = self.target_transform(target)
        return image, target.item() if hasattr(target, "item") else target

    def __len__(self):
        return self.size
