//! Whole files of Pillow, sound and damaged.

use proptest::prelude::*;

use super::*;
use crate::picture_file::Channels;

// All files and checksums are of Pillow 13.0.0 with libjpeg-turbo 3.2.0, and of NumPy 2.4.6:
//
// import io, zlib, numpy as np
// from PIL import Image, ImageFile
// ImageFile.MAXBLOCK = 1 << 20
// y, x = np.mgrid[0:14, 0:20]
// a = ((37*x + 61*y + x*y) % 256).astype("u1")
// c = np.stack([a, a.T.reshape(14, 20), 255 - a], -1)
// def file(picture, **options):
//     b = io.BytesIO(); picture.save(b, "JPEG", **options)
//     print(b.getvalue().hex(), hex(zlib.crc32(np.asarray(Image.open(b)).tobytes())))
//
// file(Image.fromarray(a), quality=100)
const GREY: &str = "\
    ffd8ffe000104a46494600010100000100010000ffdb0043000101010101010101010101010101010101\
    010101010101010101010101010101010101010101010101010101010101010101010101010101010101\
    0101010101ffc0000b08000e001401011100ffc4001f0000010501010101010100000000000000000102\
    030405060708090a0bffc400b5100002010303020403050504040000017d010203000411051221314106\
    13516107227114328191a1082342b1c11552d1f02433627282090a161718191a25262728292a34353637\
    38393a434445464748494a535455565758595a636465666768696a737475767778797a83848586878889\
    8a92939495969798999aa2a3a4a5a6a7a8a9aab2b3b4b5b6b7b8b9bac2c3c4c5c6c7c8c9cad2d3d4d5d6\
    d7d8d9dae1e2e3e4e5e6e7e8e9eaf1f2f3f4f5f6f7f8f9faffda0008010100003f00e674bd0f46f08e8d\
    acfecbff000dfe167fc233f0ff00e217fc24ff000e746fd8c3e01e9de04bdfdac7c7fe04d4fc09e0af17\
    78667fdbbfe2a5cebbe24ff8668f87ff001131e1f4bcf0efc31b1d3b59d73e1afc74f11f82d7c21fb5f7\
    c3ff000af8b3c4b19a9781bc2be32f0aea167e15f117c1ff001cfc1b6f10436c9f073c37f14f4ef865ff\
    0004e9fd9afc2be24d3be18df7c19d67f68dfda534ed0fc2de16fdb7fc4127c574f8437d61e191e3abad\
    3a1f8a317c55d2fc2be2cfd943c493f863e1bea5f55f807f66ff00f85e3e19b1f175af8aff00e0a81ac7\
    87edf365e13befd857e1d7fc3307ece16fe1cd5923f1b5b786fc19e00d67e3afecff00f13758ff008412\
    f7c5da878025f1afc6bf056aff001535bb5f0b58d96abe3ff1e787f48f0cf892f7e32b5f8a1e02b9fd9c\
    3e1d7c6bf08781be20699f04be2bfed0127c28d6bc110fc6dd67c3bf1b3f6cef1dfc6eb5f8afaff89bc7\
    3fb637c72b6f0a788753f0ff00c3ff00107c12f0ff008e750f147c12d0f4af8dba3789fe2f788ef2d7e2\
    4f8abe2a699a9f84fc77f08ba8f12dfdaf86bc69f11b4bf153785bc69f193f61bf83ff0012be2778ef5e\
    d4fe0ff85c7c1afd9e3e0d7893e01587ed3969e1ff00d883e0cd8f8974cd23c7df181748f16f86ecd7e2\
    47ed477d753cf3fc1ff03f817e2c37c7bf0dcfa5f89bc09f43fc09fd960fed21f0df45f8b5f09fe14fec\
    e1e2fd075cdda6dd7c46fdbaef3e3d7ed17fb47fc4cff846a283c3be13f1978cfc5fe19f88df0fecbc2f\
    e6fc32d33c05a145f0d24d47e297fc20d75a15f699a6fc59f16787db468349ffd9\
";

// file(Image.fromarray(c[:9, :17]), quality=30, subsampling=0, optimize=True)
const FULL: &str = "\
    ffd8ffe000104a46494600010100000100010000ffdb0043001b12141714111b1716171e1c1b2028422b\
    28252528513a3d3042605565645f555d5b6a7899816a7190735b5d85b586909ea3abadab6780bcc9baa6\
    c799a8aba4ffdb0043011c1e1e2823284e2b2b4ea46e5d6ea4a4a4a4a4a4a4a4a4a4a4a4a4a4a4a4a4a4\
    a4a4a4a4a4a4a4a4a4a4a4a4a4a4a4a4a4a4a4a4a4a4a4a4a4a4a4a4a4a4a4a4ffc00011080009001103\
    011100021101031101ffc400160001010100000000000000000000000000020405ffc400291000020003\
    040a030000000000000000000102001121124174a10314314243515291a2c1c2d1f0ffc4001801000301\
    010000000000000000000000000203040005ffc400281100010106040603000000000000000000010002\
    112131415103427181124391a1d1f01361c1ffda000c03010002110311003f00340ac8a2405932177d65\
    b7b94490d931b996d7ef2a2cea013787577f4ef46e8aed605ef2a9a544c7ecf98868b313376e6eeb7b02\
    8449f4ec25335a780a4d68f4af9c3be16ae7ab2a9e163eba155e8f89876f944f89cad59fc491ccd4a09b\
    b883ee1c33e812f13269e167402edaffd9\
";

// file(Image.fromarray(c[:9]), quality=80, subsampling=1, optimize=True, restart_marker_blocks=1)
const HALF: &str = "\
    ffd8ffe000104a46494600010100000100010000ffdb00430006040506050406060506070706080a100a\
    0a09090a140e0f0c1017141818171416161a1d251f1a1b231c1616202c20232627292a29191f2d302d28\
    3025282928ffdb0043010707070a080a130a0a13281a161a282828282828282828282828282828282828\
    2828282828282828282828282828282828282828282828282828282828282828ffc00011080009001403\
    012100021101031101ffc4001800000203000000000000000000000000000004020305ffc4002a100002\
    0201020306070000000000000000010203041100051221310607223275c3364144457181b2ffc4001801\
    000301010000000000000000000000000203040507ffc4002f11000201020305040b0000000000000000\
    010211032100042205123134510632333541436171727381b1b2b3f0ffdd00040001ffda000c03010002\
    110311003f005f31c356c52ae8a90a355944511e12b90179e08099caf411b10e7cc3ceedca55ed583511\
    701ee3444c8e4c2a59199188e4ccde2278b058e39483916335aa5361549249d44c49de204309f4936a4b\
    06c77ee7590711610226d6160012b37e133558989d248913ffd0852abda5dd2a417368db858af2c6a4ba\
    d78a41c40018cca55fa01d78bf3f206a2abb5f21977346a3d10cb6218b1607da42309eb048e96c680ca6\
    cc3e2d6afbdc34b3aadada543401d040f70e18ffd1b36bfba7a0cfefe92a5f4debd2fb9a6d0e65ff00bd\
    4b6179ae5dbe9fb463ffd2d7eeff00e1c87f5fc2e8d58bdc4f857ec31cfbb41e6b9af98ff91c7fffd9\
";

// file(Image.fromarray(c), quality=60, subsampling=2, optimize=True)
const QUARTER: &str = "\
    ffd8ffe000104a46494600010100000100010000ffdb0043000d090a0b0a080d0b0a0b0e0e0d0f132015\
    13121213271c1e17202e2931302e292d2c333a4a3e333646372c2d405741464c4e525352323e5a615a50\
    604a51524fffdb0043010e0e0e131113261515264f352d354f4f4f4f4f4f4f4f4f4f4f4f4f4f4f4f4f4f\
    4f4f4f4f4f4f4f4f4f4f4f4f4f4f4f4f4f4f4f4f4f4f4f4f4f4f4f4f4f4f4f4fffc0001108000e001403\
    012200021101031101ffc40017000101010100000000000000000000000003000205ffc4002910000202\
    000502040700000000000000000102031100041221310522134151713235526291b1d1ffc40016010101\
    0100000000000000000000000000010204ffc40022110001030303050000000000000000000001021131\
    0003210471f04191a1b1d1ffda000c03010002110311003f003ed48a482301514c4da14d117437aa0391\
    f49dcf23e269608a590c2050698af735a02412a7c893b9df9fbb8b18be571e698b68932ae9a412092b66\
    c9f43ab8fdde1a489813282a0218f30005da88d276f5b24dff007145c19639ee31c3e4c505a01e47b7e8\
    db4d6218baa66a149f2996f12375164468dbd572d47f37efe42c753a4c7a32f24702208d267550f6c681\
    a1bfb62c61b9a9521652086dbe1a15798e2da4d7ffd9\
";

// file(Image.fromarray(c[:5, :3]), quality=80, subsampling=2, optimize=True)
const FEW: &str = "\
    ffd8ffe000104a46494600010100000100010000ffdb00430006040506050406060506070706080a100a\
    0a09090a140e0f0c1017141818171416161a1d251f1a1b231c1616202c20232627292a29191f2d302d28\
    3025282928ffdb0043010707070a080a130a0a13281a161a282828282828282828282828282828282828\
    2828282828282828282828282828282828282828282828282828282828282828ffc00011080005000303\
    012200021101031101ffc4001500010100000000000000000000000000000002ffc40020100002020103\
    050000000000000000000001030204001221310613223241ffc400150101010000000000000000000000\
    0000000506ffc4001e11000103040300000000000000000000000102030400051121123141ffda000c03\
    010002110311003f008574c1b8a5ba9d855541888c53da9f8e91a4fa3211dc827688e7ef258c622890e7\
    11ba90977898cbeb6db5e12090060740ebcaffd9\
";

const FILES: [&str; 5] = [GREY, FULL, HALF, QUARTER, FEW];

fn hex(text: &str) -> Vec<u8> {
    let (pairs, _) = text.as_bytes().as_chunks::<2>();
    let byte = |pair| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap();
    pairs.iter().map(|pair| byte(pair)).collect()
}

fn pixels(file: &[u8]) -> Option<Vec<u8>> {
    Plain::parse(file)?.pixels()
}

/// Where these bytes are in a file.
fn find(file: &[u8], bytes: &[u8]) -> usize {
    let mut windows = file.windows(bytes.len());
    windows.position(|window| window == bytes).unwrap()
}

#[test]
fn pixels_are_pillows_to_the_bit() {
    let cases = [
        (GREY, [20, 14], Channels::Grey, 0x1ec7_3552),
        (FULL, [17, 9], Channels::Rgb, 0x5485_bbfe),
        (HALF, [20, 9], Channels::Rgb, 0x6d10_2247),
        (QUARTER, [20, 14], Channels::Rgb, 0x135d_1a3a),
        (FEW, [3, 5], Channels::Rgb, 0x1d9c_3c50),
    ];
    for (file, [width, height], channels, checksum) in cases {
        let file = hex(file);
        let plain = Plain::parse(&file).unwrap();
        assert_eq!([plain.width, plain.height], [width, height]);
        assert_eq!(plain.channels(), channels);
        let pixels = plain.pixels().unwrap();
        assert_eq!(pixels.len(), width * height * channels.count());
        let mut crc = flate2::Crc::new();
        crc.update(&pixels);
        assert_eq!(crc.sum(), checksum, "{width} × {height}, {channels:?}");
    }
}

#[test]
fn the_data_end_where_the_picture_ends() {
    for file in FILES.map(hex) {
        for end in 0..file.len() {
            assert_eq!(pixels(&file[..end]), None, "{end} of {}", file.len());
        }
        // What follows the end of the picture is not of the picture.
        let longer = [&file[..], b"more"].concat();
        assert!(pixels(&longer).is_some());
        assert_eq!(pixels(&longer), pixels(&file));
        // A byte too many before it is.
        let mut longer = file.clone();
        longer.insert(file.len() - 2, 0x55);
        assert_eq!(pixels(&longer), None);
    }
}

#[test]
fn restart_markers_come_in_order() {
    let mut file = hex(HALF);
    let second = find(&file, &[0xff, 0xd1]);
    file[second + 1] = 0xd2;
    assert_eq!(pixels(&file), None);
    file.drain(second..second + 2);
    assert_eq!(pixels(&file), None);
}

#[test]
fn other_kinds_are_not_plain() {
    let sound = hex(FULL);
    let frame = find(&sound, &[0xff, 0xc0]);
    let with = |at: usize, bytes: &[u8]| {
        let mut file = sound.clone();
        file[at..at + bytes.len()].copy_from_slice(bytes);
        Plain::parse(&file).is_some()
    };
    assert!(with(frame, &[0xff, 0xc0]));
    assert!(!with(frame, &[0xff, 0xc2]), "progressive");
    assert!(!with(frame + 4, &[12]), "12 bits");
    assert!(!with(frame + 5, &[0, 0]), "height follows later");
    assert!(!with(frame + 10, b"R"), "stored as red, green and blue");
    assert!(!with(frame + 11, &[0x41]), "other proportions");
    assert!(!with(frame + 12, &[3]), "steps that are not there");
    for (how, plain) in [(0, false), (1, true), (2, false)] {
        let adobe = [b"\xff\xee\0\x0eAdobe\0\x64\0\0\0\0".as_slice(), &[how]].concat();
        let file = [&sound[..2], &adobe, &sound[2..]].concat();
        assert_eq!(Plain::parse(&file).is_some(), plain, "{how}");
    }
}

proptest! {
    #[test]
    fn damaged_files_never_panic(
        which in 0..FILES.len(),
        damage in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..6),
        end in any::<prop::sample::Index>(),
    ) {
        let mut file = hex(FILES[which]);
        for (at, byte) in damage {
            let at = at.index(file.len());
            file[at] = byte;
        }
        // Only the size is read from a header that promises too much.
        let sound = |plain: &Plain<'_>| plain.width * plain.height < 1 << 20;
        for file in [&file[..], &file[..end.index(file.len())]] {
            if let Some(plain) = Plain::parse(file).filter(sound)
                && let Some(pixels) = plain.pixels()
            {
                let depth = plain.channels().count();
                prop_assert_eq!(pixels.len(), plain.width * plain.height * depth);
            }
        }
    }

    /// Any data behind a sound header: most of it is not a picture.
    #[test]
    fn any_data_never_panic(
        which in 0..FILES.len(),
        data in prop::collection::vec(any::<u8>(), 0..500),
    ) {
        let file = hex(FILES[which]);
        let scan = file.len() - Plain::parse(&file).unwrap().scan.len();
        let _ = pixels(&[&file[..scan], &data, &[0xff, 0xd9]].concat());
    }
}
